"""The systems that decode, each at its best settings: `make(system, setting, job, folder)` gives a function from calls
and a budget of source tokens a batch to the ids that were emitted, by sentence, eos included; `flags` says how.

What they share: the same weights, the same ids, hypotheses ranked by the job's search as far as each can, no sampling,
one hypothesis returned. What cannot be the same:

- Scores. pellucid and JoeyNMT divide log P by ((5 + |Y|) / 6)^α, CTranslate2 and transformers by |Y|^β, eos counted.
- Stopping. pellucid stops when no live hypothesis can win; CTranslate2, with a penalty, when as many are finished as
  the beam is wide (patience 1, its default), without one when the best candidate ends; transformers likewise
  (early_stopping True with a penalty, False, its heuristic, exact here, without one); JoeyNMT when the whole beam has
  ended, and it keeps ended hypotheses in the beam, where the others let the next best take their places.
- Special tokens. pellucid never emits padding or bos; CTranslate2 and transformers could.

With one penalty of 0, or with outputs of given lengths, the first three search exactly the same space.

JoeyNMT's environment has nothing of ours, and the memory of a process should be its system's: each class imports its
own.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from benchmarks.decode_job import BOS, EOS, PAD, Call, Ids, Job, groups, padded, read_weights, until_eos

THREADS = int(os.environ.get("OMP_NUM_THREADS", "2"))  # of all but CTranslate2, whose settings say it


class Decode(Protocol):
    """A system, ready."""

    flags: dict[str, Any]

    def __call__(self, calls: list[Call], budget: int) -> dict[int, Ids]:
        """The outputs of the sentences in `calls`, about `budget` source tokens a batch."""
        ...


def make(system: str, setting: str, job: Job, folder: Path) -> Decode:
    """The system of this name."""
    return SYSTEMS[system](setting, job, folder)


class CTranslate2:
    """The setting: "TYPE INTERxINTRA", behind it "mkl" for MKL's products, which it leaves alone on other processors
    than Intel's unless it is told, and "vmap" for the vocabulary map. Batches are made by its own rebatching (longest
    first), all calls handed over at once, so that two workers share them. Its interface takes and gives strings; they
    are looked up inside the timer, as they are in any use of it."""

    def __init__(self, setting: str, job: Job, folder: Path) -> None:
        kind, threads, *more = setting.split()
        inter, intra = map(int, threads.split("x"))
        if "mkl" in more:
            os.environ["CT2_USE_MKL"] = "1"
        import ctranslate2

        from benchmarks.convert import words_of

        self.translator = ctranslate2.Translator(str(folder / "ctranslate2"), device="cpu", compute_type=kind,
                                                 inter_threads=inter, intra_threads=intra)
        if self.translator.compute_type != kind and kind != "int8":
            raise RuntimeError(f"this machine turns {kind} into {self.translator.compute_type}")
        words = words_of(job.model["vocabulary"])
        self.sources = [[words[i] for i in source] for source in job.sources]
        self.ids = {word: i for i, word in enumerate(words)}
        self.options = {"beam_size": job.search.beam_size, "length_penalty": job.search.exponent,
                        "use_vmap": "vmap" in more, "return_end_token": True, "batch_type": "tokens",
                        "asynchronous": True}
        self.flags = {**self.options, "compute_type": self.translator.compute_type, "inter_threads": inter,
                      "intra_threads": intra}

    def __call__(self, calls: list[Call], budget: int) -> dict[int, Ids]:
        pending = [(call, self.translator.translate_batch(
            [self.sources[i] for i in call.sentences], max_batch_size=budget, min_decoding_length=call.low,
            max_decoding_length=call.high, **self.options)) for call in calls]
        return {i: [self.ids[word] for word in future.result().hypotheses[0]]
                for call, futures in pending for i, future in zip(call.sentences, futures, strict=True)}


class Batched:
    """A system that takes one padded batch at a time: sentences sorted by length, as many as fill the budget."""

    def __init__(self, job: Job) -> None:
        self.job, self.search = job, job.search
        self.flags: dict[str, Any] = {"threads": THREADS}

    def __call__(self, calls: list[Call], budget: int) -> dict[int, Ids]:
        found = {}
        for call in calls:
            for group in groups([len(self.job.sources[i]) for i in call.sentences], budget):
                numbers = [call.sentences[place] for place in group]
                outputs = self.decode([self.job.sources[i] for i in numbers], call)
                found |= {i: until_eos(ids, call.high) for i, ids in zip(numbers, outputs, strict=True)}
        return found

    def decode(self, sources: list[Ids], call: Call) -> list[Ids]:
        """What comes out for one batch, whatever stands behind the first eos."""
        raise NotImplementedError


class Transformers(Batched):
    """`generate` of transformers, with its dynamic cache and torch's fused attention; the setting is fp32 or bf16."""

    def __init__(self, setting: str, job: Job, folder: Path) -> None:
        import torch
        from transformers import GenerationConfig

        from benchmarks.convert import to_transformers

        super().__init__(job)
        torch.set_num_threads(THREADS)
        self.model = to_transformers(job.model, read_weights(folder))
        if setting == "bf16":
            self.model.to(torch.bfloat16)
        options = {"num_beams": self.search.beam_size, "do_sample": False, "length_penalty": self.search.exponent,
                   "early_stopping": self.search.exponent > 0}
        self.model.generation_config = GenerationConfig(decoder_start_token_id=BOS, eos_token_id=EOS,
                                                        pad_token_id=PAD, **options)
        self.flags |= {**options, "dtype": str(self.model.dtype), "attention": self.model.config._attn_implementation}

    def decode(self, sources: list[Ids], call: Call) -> list[Ids]:
        import torch

        source = torch.from_numpy(padded(sources))
        rows = self.model.generate(source, attention_mask=(source != PAD).long(), min_new_tokens=call.low,
                                   max_new_tokens=call.high)
        return [row[1:] for row in rows.tolist()]


class JoeyNMT(Batched):
    """JoeyNMT's own search, fp32: its model keeps no keys and values between steps."""

    def __init__(self, setting: str, job: Job, folder: Path) -> None:
        import torch

        from benchmarks.convert import to_joeynmt

        super().__init__(job)
        torch.set_num_threads(THREADS)
        self.model = to_joeynmt(job.model, read_weights(folder))
        self.flags |= {"beam_size": self.search.beam_size, "beam_alpha": self.search.length_penalty}

    def decode(self, sources: list[Ids], call: Call) -> list[Ids]:
        from types import SimpleNamespace

        import torch
        from joeynmt.search import search

        from benchmarks.convert import swapped

        ids = padded(sources)
        source = torch.from_numpy(swapped(ids))
        batch = SimpleNamespace(src=source, src_length=torch.from_numpy((ids != PAD).sum(1)),
                                src_mask=torch.from_numpy(ids != PAD)[:, None], has_trg=False)
        rows, _, _ = search(self.model, batch, call.high, self.search.beam_size, self.search.length_penalty,
                            min_output_length=call.low)
        return [[int(i) for i in row] for row in swapped(rows)]


class Pellucid(Batched):
    """Ours: the engine in the precision that the setting names, or the plain steps ("plain fp32"); batches are shared
    out as `generate` does it."""

    def __init__(self, setting: str, job: Job, folder: Path) -> None:
        import torch

        from benchmarks.reference import model_of
        from pellucid.engine.engines import Engines
        from pellucid.kernels.compiled import use_kernels

        super().__init__(job)
        torch.set_num_threads(THREADS)
        self.model, self.engines = model_of(job.model, read_weights(folder)), Engines()
        *plain, self.precision = setting.split()
        kernels = use_kernels(torch.device("cpu"), not plain)
        if not plain:
            self.engines.of(self.model, self.precision)  # or it says why there is none
        self.threads = 1 if plain else THREADS
        self.flags |= {"beam_size": self.search.beam_size, "length_penalty": self.search.length_penalty,
                       "kernels": kernels}
        gc.freeze()  # as the command line does

    def __call__(self, calls: list[Call], budget: int) -> dict[int, Ids]:
        import numpy as np

        from benchmarks.reference import options_of
        from pellucid.config import DecodeConfig
        from pellucid.engine.workers import each
        from pellucid.kernels.calls import use_threads
        from pellucid.runs.decoder import Decoder, Request
        from pellucid.search.beginnings import Beginning

        config = DecodeConfig(precision=self.precision)
        decoders = [Decoder(Request(lambda: self.model, options_of(self.search, call), config, engines=self.engines))
                    for call in calls]

        batches = [(decoder, [call.sentences[place] for place in group]) for decoder, call in zip(decoders, calls)
                   for group in groups([len(self.job.sources[i]) for i in call.sentences], budget)]

        def decode(batch: tuple[Decoder, list[int]]) -> list[Ids]:
            decoder, numbers = batch
            sources = [np.asarray(self.job.sources[i], dtype=np.int32) for i in numbers]
            found = decoder.search(sources, [Beginning()] * len(numbers), range(len(numbers)))
            return [[*one.tokens, EOS] if one.finished else list(one.tokens) for one, *_ in found]

        outputs_of = each(decode, batches, self.threads, use_threads)
        return {i: ids for (_, numbers), outputs in zip(batches, outputs_of, strict=True)
                for i, ids in zip(numbers, outputs, strict=True)}


SYSTEMS: dict[str, Callable[[str, Job, Path], Decode]] = {
    "pellucid": Pellucid, "ctranslate2": CTranslate2, "transformers": Transformers, "joeynmt": JoeyNMT}
