"""A finished run, ready for use: `pellucid.load("runs/demo").generate(["…"])`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pellucid.config import DecodeConfig, RunConfig, Task
from pellucid.config.effects import searched_with
from pellucid.data.source_ids import longest_row, shorten, source_ids
from pellucid.data.tokenizers.build import Tokenizers, load_tokenizers
from pellucid.data.tokenizers.interface import EOS, UNK
from pellucid.engine.engines import Engines
from pellucid.engine.frozen import Refusal
from pellucid.engine.kept import KeptWeights
from pellucid.errors import ConfigError, DataError, right_to_read
from pellucid.files import checked_sha256
from pellucid.runs.candidates import Classified, Generated, Scored
from pellucid.runs.decoder import Decoder, Request, Route, refuse_kept
from pellucid.runs.folder import chosen_checkpoint, read_config, require_own_parts
from pellucid.runs.format import WEIGHTS
from pellucid.runs.fusing import Fusing
from pellucid.runs.texts import answers, checked_texts, length_groups, search_options, unknown_parts, warn_of_cuts
from pellucid.runs.weights import Weights

if TYPE_CHECKING:
    from pellucid.model.classifier import Classifier
    from pellucid.model.reader import Reader
    from pellucid.model.transformer import Transformer
    from pellucid.search.observer import Observer


class Run:
    """A model with its tokenizer and configuration.

    Nothing here imports torch before `model` is asked for, and `generate` does not ask where it can search with what an
    earlier process has packed.

    Args:
        model: built already, or the weights that it is made of when it is needed.

    Attributes:
        tokenizers: text to ids and back, for both sides.
        config: the run's configuration.
        weights: those that it was opened with; None of a model that was built already.
    """

    def __init__(self, folder: Path, config: RunConfig, tokenizers: Tokenizers,
                 model: Transformer | Classifier | Reader | Weights) -> None:
        self.folder, self.config, self.tokenizers, self._model = folder, config, tokenizers, model
        self.weights = model if isinstance(model, Weights) else None
        self._reading, self._engines = Lock(), Engines(is_held=not isinstance(model, Weights))
        self._places: dict[str, KeptWeights] = {}  # by precision
        self.fused = Fusing(config, folder.absolute())

    def __repr__(self) -> str:
        return f"<pellucid run {self.folder}: {self.config.task}>"

    @property
    def model(self) -> Transformer | Classifier | Reader:
        """A torch.nn.Module, in evaluation mode, on the GPU where there is one.

        Raises:
            CheckpointError: the weights are those of another architecture, or not those of when the run was opened.
        """
        self._engines.is_held = True  # and may be changed
        return self._loaded()

    def _loaded(self) -> Transformer | Classifier | Reader:
        with self._reading:
            if isinstance(self._model, Weights):
                self._model = _read_model(self.config, self.tokenizers, self._model)
        return self._model

    def generate(self, texts: Sequence[str], beam_size: int | None = None, n_best: int | None = None,
                 prefixes: Sequence[str] | None = None, options: DecodeConfig | None = None,
                 progress: Callable[[int], None] = lambda done: None, first: int = 0,
                 scores: bool = True) -> list[Generated]:
        """What the model makes of each text; an empty text for an empty one.

        Args:
            beam_size, n_best: in place of those in `options`.
            prefixes: for each text, how its output begins, to the byte; a last word may go on where no space ends it.
            options: how to search; the run's own `decode` section if left out.
            progress: called with the number of texts done.
            first: the number of the first text, for samples that go on where an earlier call ended.
            scores: false lets greedy search leave out the sums that scores need, and say NaN for them.

        Raises:
            ConfigError (a ValueError): the run is a classifier or a reader; an option of a wrong type, out of range, at
                odds with the model, or `beam_size` beside samples, as on the command line.
            TypeError: no list of texts.
            DataError: half a surrogate pair in one.
            ValueError: not as many prefixes as texts.
        """
        texts, prefixes = checked_texts(texts), None if prefixes is None else checked_texts(prefixes, "prefix")
        options = self._options(beam_size, n_best, options)
        decoder = self._decoder(options, scores, prefixes is not None)
        return answers(decoder, self.tokenizers, self.fused(texts), self.config.model.max_length, options, prefixes,
                       progress, first)

    def route(self, beam_size: int | None = None, n_best: int | None = None, options: DecodeConfig | None = None,
              has_prefixes: bool = False) -> Route:
        """Which decoder `generate` runs when it is asked so now, and why no faster one; it is made ready. Errors as
        there."""
        return self._decoder(self._options(beam_size, n_best, options), True, has_prefixes).route

    def observed(self, observer: Observer, options: DecodeConfig | None = None) -> Decoder:
        """A decoder that tells an observer of every step of its searches. Errors as those of `generate`."""
        return self._decoder(self._options(None, None, options), True, True, observer)

    @property
    def is_packed(self) -> bool:
        """Whether an earlier process has kept packed weights that `generate` can search with, without torch."""
        try:
            self._kept(self.config.decode.precision).read()
        except Refusal:
            return False
        return True

    def _options(self, beam_size: int | None, n_best: int | None, options: DecodeConfig | None) -> DecodeConfig:
        """All of them, checked. Those in `options` are given together, and some may be without effect, but outputs that
        are held to passages where none is read would be empty; what is given by itself must have one."""
        self.must_be("seq2seq", "generate")
        own = self.config.decode
        asked: dict[str, Any] = {"beam_size": beam_size, "n_best": n_best}
        alone = {name: value for name, value in asked.items() if value is not None}
        options = replace(options or own, **alone)
        if options == own and not alone:  # which has been checked
            return own
        wanted = {name: value.item() if isinstance(value, np.generic) else value
                  for name, value in asdict(options).items()}
        return searched_with(self.config, wanted, [*alone, *(["from_passages"] if wanted["from_passages"] else [])])

    def _decoder(self, options: DecodeConfig, scores: bool, has_prefixes: bool,
                 observer: Observer | None = None) -> Decoder:
        return Decoder(Request(lambda: cast("Transformer", self._loaded()), search_options(options, scores), options,
                               has_prefixes, lambda: self._kept(options.precision), self._engines, observer))

    def _kept(self, precision: str) -> KeptWeights:
        """Where packed weights are kept, as long as nobody has asked for the model, and so may have changed it."""
        if self.config.train.kernels != "auto":
            raise Refusal(f"train.kernels is {self.config.train.kernels}")
        if self._engines.is_held or self.weights is None:
            return refuse_kept()
        if precision not in self._places:
            sides, file = self.tokenizers, self.weights.folder / WEIGHTS
            made_of = [asdict(self.config.model), sides.source.size, sides.target.size, sides.shared]
            self._places[precision] = KeptWeights(self.weights.folder.parents[1], file, self.weights.sha256, made_of,
                                                  self.config.model.max_length, precision)
        return self._places[precision]

    def classify(self, texts: Sequence[str], first: int = 0) -> list[Classified]:
        """The label of each text; `first` is the number of the first one, for warnings.

        Raises:
            ConfigError: the run is no classifier.
            TypeError: no list of texts.
            DataError: half a surrogate pair in one.
        """
        import torch

        from pellucid.data.batching import pad
        from pellucid.model.stepper import evaluating

        texts = checked_texts(texts)
        self.must_be("classification", "classify")
        model, limit = cast("Classifier", self._loaded()), self.config.model.max_length
        encoded = source_ids(texts, self.tokenizers, True)
        warn_of_cuts({first + number: len(ids) for number, ids in enumerate(encoded)}, limit)
        unknown = unknown_parts(self.tokenizers.source, texts, encoded)
        rows = [np.asarray(shorten(ids, limit), dtype=np.int32) for ids in encoded]
        results, device = dict[int, Classified](), model.head_2.weight.device
        for group in length_groups([len(row) for row in rows], self.config.decode.batch_tokens):
            ids, real = pad([rows[i] for i in group])
            with evaluating(model), torch.inference_mode():
                logits = model(ids.to(device), None if real is None else real.to(device))
            for i, row in zip(group, logits.softmax(-1).tolist(), strict=True):
                probabilities = dict(zip(self.tokenizers.labels, row, strict=True))
                label = max(probabilities, key=probabilities.__getitem__)
                results[i] = Classified(label, probabilities, max(0, len(encoded[i]) - limit), unknown[i])
        return [results[i] for i in range(len(rows))]

    def score(self, sources: Sequence[str], targets: Sequence[str], cut: bool = False, first: int = 0) -> list[Scored]:
        """How probable each target is, given its source.

        Args:
            cut: a target is cut where learned positions end, eos at its end.
            first: the number of the first source, for warnings.

        Raises:
            ConfigError: the run is a classifier or a reader.
            TypeError: no lists of texts.
            DataError: a target goes on where learned positions end; half a surrogate pair in a text.
            ValueError: not as many targets as sources.
        """
        from pellucid.runs.generate import score_targets

        sources, targets = checked_texts(sources), checked_texts(targets, "target")
        self.must_be("seq2seq", "score")
        if len(sources) != len(targets):
            raise ValueError(f"{len(sources)} sources and {len(targets)} targets")
        limit = self.config.model.max_length
        encoded = source_ids(self.fused(sources), self.tokenizers, classify=False, limit=limit)
        lengths = list(map(longest_row, encoded))
        warn_of_cuts({first + number: length for number, length in enumerate(lengths)}, limit)
        wanted = [[*ids, EOS] for ids in self.tokenizers.target.encode_batch(targets)]
        is_learned = self.config.model.position == "learned"
        if is_learned and not cut and (long := [n for n, ids in enumerate(wanted) if len(ids) > limit]):
            raise DataError(f"the target has {len(wanted[long[0]])} tokens, and learned positions end at "
                            f"model.max_length {limit}", where=f"line {first + long[0] + 1}",
                            fix="leave it out, or shorten it: less than all of it has another score")
        if cut and is_learned:
            warn_of_cuts({first + number: len(ids) for number, ids in enumerate(wanted)}, limit,
                         line="the target of line")
            wanted = [shorten(ids, limit) for ids in wanted]
        pairs = [(np.asarray(shorten(a, limit), dtype=np.int32), np.asarray(b, dtype=np.int32))
                 for a, b in zip(encoded, wanted, strict=True)]
        found = score_targets(cast("Transformer", self._loaded()), pairs, self.config.decode.batch_tokens)
        sides = zip(wanted, found, lengths, unknown_parts(self.tokenizers.source, sources, encoded),
                    unknown_parts(self.tokenizers.target, targets, wanted), strict=True)
        return [Scored(tuple(self.tokenizers.target.pieces(ids)), tuple(row), max(0, length - limit), *unknown)
                for ids, row, length, *unknown in sides]

    def must_be(self, task: Task, verb: str) -> None:
        """A ConfigError, where the run was trained for another task: what it can do."""
        if self.config.task != task:
            to = {"classification": "classify RUN", "reading": "answer RUN --index IDX", "seq2seq": "translate RUN"}
            raise ConfigError(f"this run cannot {verb}", where=str(self.folder), fix="pellucid " + to[self.config.task],
                              why=f"it was trained for {self.config.task}, not {task}")


def build_model(config: RunConfig, tokenizers: Tokenizers, seed: int) -> Transformer | Classifier | Reader:
    """The model of a configuration, with its initial weights, in fp32."""
    from pellucid.model.build import build, build_classifier, build_reader
    from pellucid.model.fusion import FusionTransformer
    from pellucid.precision import made_in_fp32

    with made_in_fp32():
        if config.task == "reading":
            return build_reader(config.model, tokenizers.source.size, separator=EOS, unknown=UNK, seed=seed)
        if config.task == "classification":
            return build_classifier(config.model, tokenizers.source.size, len(tokenizers.labels), seed=seed)
        plain = build(config.model, tokenizers.source.size, tokenizers.target.size, shared=tokenizers.shared, seed=seed)
    return FusionTransformer(plain, EOS) if config.retrieval.is_on else plain


def _read_model(config: RunConfig, tokenizers: Tokenizers, weights: Weights) -> Transformer | Classifier | Reader:
    import torch

    _choose_kernels(config)
    with torch.inference_mode(False):  # whoever holds it may want to train it
        model = build_model(config, tokenizers, seed=0)
    weights.fill(model)
    return model.to(torch.device("cuda" if torch.cuda.is_available() else "cpu")).eval()


def _choose_kernels(config: RunConfig) -> None:
    """The first run's are the process's, as long as nobody asks for others: runs that are open, and a training, go on
    with what they have."""
    import torch

    from pellucid.kernels.compiled import chosen, use_kernels
    from pellucid.precision import keep_primitives

    keep_primitives()
    if chosen() is None:
        use_kernels(torch.device("cuda" if torch.cuda.is_available() else "cpu"), config.train.kernels == "auto")


def load(folder: str | Path) -> Run:
    """Opens a run folder with its best weights, which are checked now, and read when they are first needed.

    Raises:
        CheckpointError: no run folder, nothing trained in it yet, or something in it is damaged, or may not be read.
    """
    folder = Path(folder)
    with right_to_read():
        config = read_config(folder)
        require_own_parts(folder, config)
        checkpoint, tokenizers = chosen_checkpoint(folder), load_tokenizers(folder / "tokenizer")
        run = Run(folder, config, tokenizers, Weights(checkpoint.absolute(), checked_sha256(checkpoint, WEIGHTS)))
    if "torch" in sys.modules:  # its work in this process is done with the kernels from now on
        _choose_kernels(config)
    return run
