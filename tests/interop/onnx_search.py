"""Search through what `pellucid export --to onnx` wrote: onnxruntime's sessions, and nothing of the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.data.tokenizers.interface import BOS, EOS, PAD
from pellucid.runs.run import Run
from pellucid.search.options import SearchOptions, Specials
from pellucid.search.search import search

Array = np.ndarray[Any, np.dtype[Any]]


class State(NamedTuple):
    """What a step needs: the mask [R, S], the memory [R, S, D], and the caches [R, H, length, width] by name."""

    mask: Array
    memory: Array
    caches: dict[str, Array]


@dataclass(frozen=True)
class OnnxStep:
    """The step that search sees, by two sessions; `opened` makes one."""

    encoder: Any
    decoder: Any

    def start(self, source: tuple[Array, Array]) -> State:
        """ids and mask [B, S] → the state before the first token."""
        ids, mask = source
        memory = self.encoder.run(None, {"input_ids": ids, "attention_mask": mask})[0]
        empty = {each.name: np.zeros((len(ids), each.shape[1], 0, each.shape[3]), memory.dtype)
                 for each in self.decoder.get_inputs() if each.name.startswith("past_key_values.")}
        return State(mask, memory, empty)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """tokens [R] or [R, T] → the logits after the last of them [R, V], and the state after them."""
        logits, after = self.logits(state, tokens.view(len(tokens), -1).numpy())
        return torch.from_numpy(logits[:, -1]), after

    def logits(self, state: State, tokens: Array) -> tuple[Array, State]:
        """tokens [R, T] → logits [R, T, V] and the state after them."""
        logits, *present = self.decoder.run(None, {
            "input_ids": tokens, "encoder_attention_mask": state.mask, "encoder_hidden_states": state.memory,
            **state.caches})
        return logits, state._replace(caches=dict(zip(state.caches, present, strict=True)))

    def select(self, state: State, rows: Tensor) -> State:
        """The rows [R'] of the state."""
        here = rows.numpy()
        return State(state.mask[here], state.memory[here], {name: each[here] for name, each in state.caches.items()})


def session(path: Path) -> Any:
    """onnxruntime on one thread of a CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def opened(folder: Path) -> OnnxStep:
    """The two graphs of an exported folder."""
    return OnnxStep(session(folder / "onnx" / "encoder_model.onnx"),
                    session(folder / "onnx" / "decoder_model_merged.onnx"))


def padded(rows: Sequence[Sequence[int]]) -> tuple[Array, Array]:
    """ids and mask [B, S], padding at the end."""
    ids = np.full((len(rows), max(map(len, rows))), PAD, np.int64)
    for row, line in zip(ids, rows, strict=True):
        row[:len(line)] = line
    return ids, np.array([[1] * len(row) + [0] * (ids.shape[1] - len(row)) for row in rows], np.int64)


def decode(folder: Path, run: Run, texts: Sequence[str], beam_size: int, batch: int = 50) -> list[str]:
    """The texts as the exported folder has them: tokenized and searched as the run says, computed by onnxruntime."""
    step, options = opened(folder), run.config.decode
    search_options = SearchOptions(beam_size=beam_size, length_penalty=options.length_penalty,
                                   max_length=options.max_length)
    rows = [[*ids, EOS] for ids in run.tokenizers.source.encode_batch(texts)]
    order, said = sorted(range(len(rows)), key=lambda i: len(rows[i])), [""] * len(rows)
    for first in range(0, len(order), batch):
        here = order[first:first + batch]
        found = search(step, padded([rows[i] for i in here]), len(here), search_options,
                       Specials(bos=BOS, eos=EOS, pad=PAD), [run.tokenizers.target.forced] * len(here))
        for i, hypotheses in zip(here, found, strict=True):
            said[i] = run.tokenizers.target.decode(hypotheses[0].tokens)
    return said
