"""The fast step: what `TransformerStep` computes, from frozen weights, and without moving what has been seen.

- Weights are packed once for the products; keys and values of the source are one product for all layers.
- Encoding and each step are one call of a kernel, which executes a `Program`, and most searches are one call as a whole
  (engine/frozen.py). Source tokens are packed without padding.
- The keys and values of a step stay where that step's product left them. A hypothesis finds its past through a table
  of ancestors, its source through the number of its sentence: choosing rows moves small integers alone.
- Each row is computed by itself, in one order of summation: the same bits in any batch.

It serves softmax attention, on a CPU with compiled kernels; engine/obstacle.py names what a model has that it does not
know. Who decodes that is decided in runs/decoder.py.
"""

import copy
import ctypes
import math
from ctypes import addressof, c_void_p
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from pellucid.engine.frozen import Frozen, check_tokens, encode, pointers
from pellucid.engine.layout import Buffer, Execution, remembered
from pellucid.engine.program import Program
from pellucid.engine.widths import Projection, heads_of
from pellucid.model.transformer import Transformer
from pellucid.nn.embeddings import OutputBias
from pellucid.nn.positional_encoding import LearnedPosition, Position

_AT_ONCE = 64  # positions that are computed together


@dataclass
class Memory:
    """What decoding remembers between two steps.

    Attributes:
        source: keys and values of every layer side by side, [source tokens, …], the sentences one behind the other.
        firsts, lengths: [B], the first row of each sentence there, and how many.
        longest: of the lengths.
        sentences: [R], whose hypothesis a row is.
        ancestors: [R, t], int32: the row of this row's hypothesis at each step.
        steps: the keys and values [layers, R_t, …] of each step.
        places: where they are, [t or more, layers].
        buffers: what a step works in.
    """

    source: Tensor
    firsts: Tensor
    lengths: Tensor
    longest: int
    sentences: Tensor
    ancestors: Tensor
    places: Tensor
    steps: list[Tensor] = field(default_factory=list)
    buffers: dict[int, Tensor] = field(default_factory=dict)


class Engine:
    """A step of `search` over a frozen copy of `model`.

    Args:
        model: with no `obstacle`; later changes of its weights are not seen.
        precision: of the products, "fp32", "bf16" or "int8".
    """

    def __init__(self, model: Transformer, precision: str) -> None:
        self.precision, self.width = precision, model.output.weight.shape[1]
        self.layers = len(model.decoder.layers)
        self.window = 0 if model.window_size is None else 1 + model.window_size
        self.source_places, self.target_places = (
            Places(part.position, self.width) for part in (model.encoder, model.decoder))
        self.encoder, self.decoder = Program(precision, self.width), Program(precision, self.width)
        self._write_encoder(model)
        self._write_decoder(model)

    def _write_encoder(self, model: Transformer) -> None:
        """Figure 1, left, and the keys and values that the right half will ask for."""
        program = self.encoder
        program.embed(model.source_embedding, model.encoder.embedding_norm)
        for layer in model.encoder.stack():
            program.connect(layer.residual_1, partial(program.attend, layer.self_attention, self.window))
            program.connect(layer.residual_2, partial(program.feed_forward, layer.feed_forward))
        program.close(model.encoder.closing_norm)
        heads = [heads_of(layer.cross_attention) for layer in model.decoder.stack()]
        program.multiply(Buffer.SOURCE, *(projection for each in heads for projection in (each.key, each.value)))

    def _write_decoder(self, model: Transformer) -> None:
        """Figure 1, right, for the newest tokens."""
        program, first = self.decoder, 0
        program.embed(model.target_embedding, model.decoder.embedding_norm)
        for number, layer in enumerate(model.decoder.stack()):
            past, source = layer.self_attention, layer.cross_attention
            program.connect(layer.residual_1, partial(program.attend_past, past, self.window, number))
            program.connect(layer.residual_2, partial(program.attend_source, source, first,
                                                      self.encoder.widths[Buffer.SOURCE]))
            program.connect(layer.residual_3, partial(program.feed_forward, layer.feed_forward))
            first += heads_of(source).row
        program.close(model.decoder.closing_norm)
        bias = model.output_bias.bias if isinstance(model.output_bias, OutputBias) else None
        program.multiply(Buffer.LOGITS, Projection(model.output.weight, bias))

    @property
    def vocabulary(self) -> int:
        """Tokens that it chooses among."""
        return self.decoder.widths[Buffer.LOGITS]

    def frozen(self, source: int, target: int) -> Frozen:
        """What needs no torch to search, for sources and outputs of at most so many tokens.

        Raises:
            ValueError: learned positions end before.
        """
        places = self.source_places.first(source).numpy(), self.target_places.first(target).numpy()
        return Frozen(self.encoder.stack(len(places[0])), self.decoder.stack(len(places[1])), *places, self.layers,
                      self.decoder.call)

    def largest(self, source: int, target: int) -> Frozen:
        """The same for so many tokens, or as many as there are positions."""
        return self.frozen(int(min(source, self.source_places.limit)), int(min(target, self.target_places.limit)))

    def start(self, source: tuple[Tensor, Tensor | None]) -> Memory:
        """Encodes (ids [B, S], real [B, S] or None), wherever the padding lies.

        Raises:
            IndexError: an id beyond the embedding, here as in `step`.
        """
        tokens, lengths = _packed(*source)
        longest, rows = int(lengths.max()), len(lengths)
        buffers = self.encoder.buffers(len(tokens))
        firsts = encode(self.encoder.stack(longest), self._pointers(buffers), tokens.numpy(), lengths.numpy(),
                        self.source_places.first(longest).numpy(), self.encoder.call)
        return Memory(buffers[Buffer.SOURCE], torch.from_numpy(firsts), lengths, longest, torch.arange(rows),
                      torch.empty(rows, 0, dtype=torch.int32), torch.empty(0, self.layers, dtype=torch.int64))

    def step(self, state: Memory, tokens: Tensor) -> tuple[Tensor, Memory]:
        """tokens [R] → logits [R, V] in fp32, good until the next step, and the state after them."""
        tokens = tokens.long().contiguous()
        rows, seen = len(tokens), state.ancestors.shape[1]
        check_tokens(tokens.numpy(), self.decoder.stack(seen + 1))
        state.ancestors = torch.cat([state.ancestors, torch.arange(rows, dtype=torch.int32)[:, None]], dim=1)
        if not state.buffers or len(state.buffers[Buffer.STREAM]) < rows:
            state.buffers = self.decoder.buffers(rows) | {Buffer.SOURCE: state.source}
        self._make_room(state, rows, seen)
        self._run(state, tokens, self.target_places.first(seen + 1))
        return state.buffers[Buffer.LOGITS][:rows], state

    def select(self, state: Memory, rows: Tensor) -> Memory:
        """The rows [R'] of the state."""
        state.sentences, state.ancestors = state.sentences[rows], state.ancestors[rows]
        return state

    def _pointers(self, buffers: dict[int, Tensor]) -> ctypes.Array[c_void_p]:
        return pointers({number: buffer.data_ptr() for number, buffer in buffers.items()}, self.layers)

    def _make_room(self, state: Memory, rows: int, seen: int) -> None:
        """For the keys and values of a step."""
        state.steps.append(torch.empty(self.layers, rows, remembered(self.decoder.widths), dtype=self.decoder.dtype))
        layers = state.steps[-1].unbind()
        if seen == len(state.places):
            state.places = torch.cat([state.places, torch.zeros(max(seen, 16), self.layers, dtype=torch.int64)])
        state.places[seen] = torch.tensor([layer.data_ptr() for layer in layers])
        for number, layer in enumerate(layers):
            state.buffers[Buffer.REMEMBERED + number] = layer

    def _run(self, state: Memory, tokens: Tensor, places: Tensor) -> None:
        rooms = self._pointers(state.buffers)
        self.decoder.run(Execution(addressof(rooms), len(tokens), state.ancestors.shape[1], state.longest, self.layers,
                                   tokens.data_ptr(), None, places.data_ptr(), state.places.data_ptr(),
                                   state.ancestors.data_ptr(), state.sentences.data_ptr(), state.firsts.data_ptr(),
                                   state.lengths.data_ptr()))


def _packed(ids: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """ids [B, S], of which some are real, one row behind the other, and the length of each."""
    ids = ids.long()
    if real is None:
        return ids.flatten().contiguous(), torch.full((len(ids),), ids.shape[1])
    return ids[real], real.sum(1)


class Places:
    """What a position adds to the embedding of its token; each is computed once, and always among the same others, so
    that its bits do not depend on what was asked for before."""

    def __init__(self, position: Position, width: int) -> None:
        self.position = copy.deepcopy(position)  # as it is now
        self.table = torch.empty(0, width, dtype=torch.float32)

    @property
    def limit(self) -> float:
        """How many there are."""
        return len(self.position.table) if isinstance(self.position, LearnedPosition) else math.inf

    def first(self, count: int) -> Tensor:
        """The first `count`, [count, D]."""
        table = self.table
        if len(table) < count:
            end = int(min(-(-count // _AT_ONCE) * _AT_ONCE, max(count, self.limit)))
            new = [self.position.embed(table.new_zeros(1, len(places), table.shape[1]), places)[0]
                   for places in torch.split(torch.arange(len(table), end), _AT_ONCE)]
            self.table = table = torch.cat([table, *new]).detach()
        return table[:count]
