"""Greedy and beam search with all their steps in one call of a kernel, over packed weights in memory or in a file.

Imports no torch: a run whose weights were packed once is decoded again without waiting for it. What is found is what
`greedy_search` and `beam_search` find over the engine (engine/engine.py), which packs the weights.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from ctypes import addressof, c_void_p
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pellucid.cache import tell_of_damage
from pellucid.engine import verify
from pellucid.engine.layout import ITEM_BYTES, SUFFIX, Buffer, Execution, Operation, Search, remembered, row_rooms
from pellucid.errors import CheckpointError
from pellucid.files import is_kept, read_json, write_folder, write_json
from pellucid.search.beginnings import Beginning
from pellucid.search.options import Hypothesis, SearchOptions, Specials, hypothesis, largest_penalties, length_penalty

LONGEST = 1024  # tokens that room is made for at the start
_FILES = ("about.json", "encoder", "decoder", "weights")
_ALIGNED = 64  # bytes: each matrix in a file begins where a row of the processor's cache does

Call = Callable[..., None]


class Refusal(Exception):
    """The engine cannot do what is asked of it; the message says why."""


@dataclass(frozen=True)
class Stack:
    """A list of operations, as `program.Program` writes it.

    Attributes:
        operations: in their order.
        weights: what they point to, kept for as long as they are.
        widths: of the buffers that they write to.
        typed: of what goes from one operation to the next, "float32" or "bfloat16".
    """

    operations: ctypes.Array[Operation]
    weights: Sequence[NDArray[np.uint8]]
    widths: Mapping[int, int]
    typed: str

    @cached_property
    def vocabulary(self) -> int:
        """Tokens that there is an embedding for."""
        return verify.tokens_of(self.operations, {at(block): block.nbytes for block in self.weights})

    def run(self, execution: Execution, call: Call) -> None:
        """Executes all operations."""
        call(f"execute_{SUFFIX[self.typed]}", addressof(self.operations), len(self.operations),
             ctypes.byref(execution))

    def buffers(self, rows: int) -> dict[int, NDArray[np.uint8]]:
        """Room for so many rows, but not for what is remembered."""
        return {buffer: np.empty((rows, numbers * ITEM_BYTES[kind]), dtype=np.uint8)
                for buffer, (numbers, kind) in row_rooms(self.widths, self.typed).items()}


@dataclass(frozen=True)
class Frozen:
    """A Transformer that can do nothing but search.

    Attributes:
        encoder, decoder: its two stacks.
        source_places, target_places: what each position adds to the embedding of its token, [positions, D].
        layers: of the decoder.
        call: calls a function of the kernels by its name.
    """

    encoder: Stack
    decoder: Stack
    source_places: NDArray[np.float32]
    target_places: NDArray[np.float32]
    layers: int
    call: Call

    @property
    def vocabulary(self) -> int:
        """Tokens that it chooses among."""
        return self.decoder.widths[Buffer.LOGITS]

    @property
    def precision(self) -> str:
        """Of what goes from one operation to the next."""
        return {"float32": "fp32", "bfloat16": "bf16"}[self.decoder.typed]

    def search(self, tokens: NDArray[np.int64], lengths: NDArray[np.int64], options: SearchOptions,
               specials: Specials, beginnings: Sequence[Beginning] = ()) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first.

        Args:
            tokens: the sources, one behind the other.  lengths: of each.
            options: which the kernel must know, see `check`.
            beginnings: of the outputs of each sentence: none, or the same token for all.

        Raises:
            Refusal: a source is too long; there are other beginnings; a row has no finite logit, and the search
                by steps knows what to do then.
        """
        if lengths.max() > len(self.source_places):
            raise Refusal(f"a source has {lengths.max()} tokens, of {len(self.source_places)} that there is room for")
        sentences, longest, shape = len(lengths), options.max_length, (len(lengths), options.n_best, options.max_length)
        forced, sources = _forced(beginnings, options, specials, self.vocabulary), self.encoder.buffers(len(tokens))
        rooms = pointers({number: at(buffer) for number, buffer in sources.items()}, self.layers)
        firsts = encode(self.encoder, rooms, tokens, lengths, self.source_places, self.call)
        buffers = self.decoder.buffers(sentences * options.beam_size) | {Buffer.SOURCE: sources[Buffer.SOURCE]}
        rooms = pointers({number: at(buffer) for number, buffer in buffers.items()}, self.layers)
        penalties = np.array([1.0, *(length_penalty(n + 1, options.length_penalty) for n in range(longest))])
        largest = np.array(largest_penalties(options))
        found, log_p = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.float32)
        sizes = np.full(shape[:2], -1, dtype=np.int64)
        typed = self.decoder.typed
        self.call(f"search_{SUFFIX[typed]}", ctypes.byref(Search(
            addressof(self.decoder.operations), len(self.decoder.operations), addressof(rooms),
            at(self.target_places), at(firsts), at(lengths), int(lengths.max()), sentences, options.beam_size,
            self.layers, remembered(self.decoder.widths) * ITEM_BYTES[typed], specials.bos, specials.eos, specials.pad,
            forced, options.min_length, longest, options.n_best, options.scores, at(penalties), at(largest),
            at(found), at(log_p), at(sizes))))
        if int(sizes[0, 0]) < 0:
            raise Refusal("a row has no finite logit")
        room = int(sizes.max())
        return [[hypothesis(ids[:size], terms[:size], specials.eos, options.length_penalty)
                 for size, ids, terms in zip(*sentence, strict=True) if size] for sentence in
                zip(sizes.tolist(), found[..., :room].tolist(), log_p[..., :room].tolist(), strict=True)]


def _forced(beginnings: Sequence[Beginning], options: SearchOptions, specials: Specials, vocabulary: int) -> int:
    """The token that all outputs begin with; -1 where they are free."""
    match list({tuple(tuple(choice.tokens.tolist()) for choice in one.choices) for one in beginnings}):
        case [] | [()]:
            return -1
        case [((int(token),),)] if token < vocabulary and token not in vars(specials).values() and (
                options.max_length > 1):
            return token
    raise Refusal("outputs begin with prefixes")


def check(options: SearchOptions, has_prefixes: bool, specials: Specials, vocabulary: int, positions: float) -> None:
    """Refuses what the kernel does not search, with a model of so many words and positions.

    Raises:
        Refusal: what it is.
    """
    if options.sample:
        raise Refusal("outputs are drawn at random")
    if has_prefixes:
        raise Refusal("outputs begin with prefixes")
    if options.no_repeat_ngram:
        raise Refusal("n-grams must not be repeated")
    if options.max_length > min(LONGEST, positions):
        raise Refusal(f"outputs may be longer than {min(LONGEST, positions)} tokens")
    if vocabulary < 2 * options.beam_size + 3 or vocabulary <= max(vars(specials).values()):
        raise Refusal("the vocabulary is hardly larger than the beam")


def encode(encoder: Stack, rooms: ctypes.Array[c_void_p], tokens: NDArray[np.int64], lengths: NDArray[np.int64],
           places: NDArray[np.float32], call: Call) -> NDArray[np.int64]:
    """Runs the encoder over sentences that lie one behind the other, without padding.

    Args:
        rooms: pointers to its buffers, as `pointers` makes them.
        tokens: of all sentences.  lengths: of each.
        places: of as many positions as the longest has, or more.

    Returns:
        The first row of each sentence.

    Raises:
        IndexError: as `check_tokens`.
    """
    check_tokens(tokens, encoder)
    firsts = np.cumsum(lengths) - lengths
    sentences = np.repeat(np.arange(len(lengths)), lengths)
    positions = np.arange(len(tokens)) - firsts[sentences]
    encoder.run(Execution(addressof(rooms), len(tokens), 0, int(lengths.max()), 0, at(tokens), at(positions),
                          at(places), None, None, at(sentences), at(firsts), at(lengths)), call)
    return firsts


def check_tokens(tokens: NDArray[np.int64], stack: Stack) -> None:
    """Raises an IndexError, as torch's own embedding does, where a token has no row in the table of the stack: the
    kernel would read where nothing is."""
    if len(tokens) and not 0 <= tokens.min() <= tokens.max() < stack.vocabulary:
        raise IndexError(f"index out of range: the embedding has {stack.vocabulary} rows")


def pointers(addresses: Mapping[int, int], layers: int) -> ctypes.Array[c_void_p]:
    """Where the buffers are, by their numbers, with a place for what each layer will remember."""
    found = (c_void_p * (Buffer.REMEMBERED + layers))()
    for number, address in addresses.items():
        found[number] = address
    return found


def at(array: NDArray[Any]) -> int:
    """Where the data of an array begins."""
    return int(array.ctypes.data)


def save(frozen: Frozen, folder: Path) -> None:
    """Writes the folder whole, or not at all; pointers become the numbers of blocks of the file of weights, from 1.

    Raises:
        OutputError: disk full, no permission.
    """
    places = [np.ascontiguousarray(table, dtype=np.float32).view(np.uint8).reshape(-1)
              for table in (frozen.source_places, frozen.target_places)]
    blocks = {at(block): block for block in (*places, *frozen.encoder.weights, *frozen.decoder.weights)}
    numbers = {address: number for number, address in enumerate(blocks, start=1)}
    sizes = [block.nbytes for block in blocks.values()]

    def fill(place: Path) -> None:
        with (place / "weights").open("wb") as file:
            for begin, block in zip(_begins(sizes), blocks.values(), strict=True):
                file.write(bytes(begin - file.tell()))
                file.write(block.data)
        for name, stack in (("encoder", frozen.encoder), ("decoder", frozen.decoder)):
            operations = type(stack.operations)(*stack.operations)
            for operation in operations:
                for pointer in Operation.POINTERS:
                    setattr(operation, pointer, numbers.get(getattr(operation, pointer)))
            (place / name).write_bytes(operations)
        write_json(place / "about.json", {"layers": frozen.layers, "width": frozen.source_places.shape[1],
                                          "typed": frozen.decoder.typed, "blocks": sizes})

    write_folder(folder, fill)


def read(folder: Path, call: Call) -> Frozen | None:
    """What `save` wrote; None where there is nothing.

    Nothing in the files is believed: each must be whole (`is_kept`), and what they say is held against what the kernels
    will touch (`verify`), since whoever can write a file can write its digest.

    Warns:
        PellucidWarning: what is there is damaged or forged; None then, too.
    """
    if not is_kept(folder, _FILES):
        return None
    try:
        return _read(folder, call)
    except (CheckpointError, OSError, ValueError) as error:
        tell_of_damage(folder, error)
        return None


def _read(folder: Path, call: Call) -> Frozen:
    about = read_json(folder / "about.json")
    if not isinstance(about, dict) or about.keys() != {"layers", "width", "typed", "blocks"}:
        raise verify.Misfit("about.json has other keys")
    layers, width, typed, sizes = about["layers"], about["width"], about["typed"], about["blocks"]
    if not isinstance(sizes, list) or not all(type(n) is int and n > 0 for n in (layers, width, *sizes)):
        raise verify.Misfit("about.json has no numbers where they should be")
    if not isinstance(typed, str) or typed not in SUFFIX:
        raise verify.Misfit(f"about.json names the type {typed!r}")
    weights: NDArray[np.uint8] = np.memmap(folder / "weights", dtype=np.uint8, mode="r")
    begins = _begins(sizes)
    if len(sizes) < 2 or begins[-1] + sizes[-1] != len(weights):
        raise verify.Misfit("the blocks are not as long as the weights")
    blocks = [weights[begin : begin + size] for begin, size in zip(begins, sizes, strict=True)]
    source, target = (block.view(np.float32).reshape(-1, width) for block in blocks[:2])
    of_all = verify.Sizes(width, layers, typed, {at(block): block.nbytes for block in blocks}, len(source), None)
    encoder = _stack(folder / "encoder", blocks, of_all)
    of_all = replace(of_all, positions=len(target), source=encoder.widths[Buffer.SOURCE])
    decoder = _stack(folder / "decoder", blocks, of_all)
    return Frozen(encoder, decoder, source, target, layers, call)


def _begins(sizes: Sequence[int]) -> list[int]:
    """Where each block lies in the file of weights: one behind the other, and aligned."""
    begins = [0]
    for size in sizes:
        begins.append(begins[-1] + size + -size % _ALIGNED)
    return begins[:-1]


def _stack(path: Path, blocks: Sequence[NDArray[np.uint8]], sizes: verify.Sizes) -> Stack:
    data = path.read_bytes()
    if len(data) % ctypes.sizeof(Operation):
        raise verify.Misfit(f"{path.name} has {len(data)} bytes, of operations that have {ctypes.sizeof(Operation)}")
    operations = (Operation * (len(data) // ctypes.sizeof(Operation))).from_buffer_copy(data)
    for operation in operations:
        for pointer in Operation.POINTERS:
            number = getattr(operation, pointer)
            if number is not None and number > len(blocks):
                raise verify.Misfit(f"{path.name} points to a block {number} of {len(blocks)}")
            setattr(operation, pointer, None if number is None else at(blocks[number - 1]))
    return Stack(operations, blocks, verify.check(operations, sizes), sizes.typed)
