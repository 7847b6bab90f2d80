"""Which runs a server answers with, by name and by the languages that they translate between."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pellucid.config.checks import check_language
from pellucid.config.effects import searched_with
from pellucid.errors import ConfigError
from pellucid.retrieve.index import open_index
from pellucid.retrieve.retriever import Retriever
from pellucid.runs.run import Run, load
from pellucid.serve.detect import Detector
from pellucid.serve.names import plain
from pellucid.serve.tasks import Ask

ANY = ""  # the language of a run that names none
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Served:
    """A run that is served.

    Attributes:
        name: its folder's; with a number behind it, where two have the same.
        run: what translates, scores and classifies.
        source, target: the codes of its languages; `ANY` where it has none.
    """

    name: str
    run: Run
    source: str
    target: str

    @functools.cached_property
    def one_each(self) -> Ask:
        """What sentences are decoded with, of which one translation each is wanted."""
        return self.some_each(1)

    def some_each(self, count: int) -> Ask:
        """The same for so many translations of each, with their scores if they are several."""
        options = replace(self.run.config.decode, n_best=count, split_sentences=False)
        return Ask(self.run, options, scores=count > 1)

    @functools.cached_property
    def glass(self) -> Run:
        """The same weights, to be read once more, to look inside: whoever holds `run.model` may change it, so that the
        fast decoder would have to compare its weights at every call."""
        run = self.run
        return run if run.weights is None else Run(run.folder, run.config, run.tokenizers, run.weights)


@dataclass(frozen=True)
class Catalogue:
    """All runs that are served, in the order in which they were given."""

    served: tuple[Served, ...]
    index: Retriever | None = None  # that answers are looked for in

    @functools.cached_property
    def by_name(self) -> Mapping[str, Served]:
        """Each by its name."""
        return {one.name: one for one in self.served}

    @functools.cached_property
    def translators(self) -> Sequence[Served]:
        """Those that translate, and have two languages."""
        return [one for one in self.served if one.source and one.target and one.run.config.task == "seq2seq"]

    @functools.cached_property
    def by_pair(self) -> Mapping[tuple[str, str], Served]:
        """Those that have languages, by their plain codes; of two with the same, the first."""
        return {(plain(one.source), plain(one.target)): one for one in reversed(self.translators)}

    @functools.cached_property
    def targets(self) -> Mapping[str, tuple[str, ...]]:
        """The targets of each source, as codes are written."""
        found: dict[str, list[str]] = {}
        for one in self.translators:
            if one.target not in found.setdefault(one.source, []):
                found[one.source].append(one.target)
        return {source: tuple(targets) for source, targets in found.items()}

    @functools.cached_property
    def detector(self) -> Detector:
        """What tells their source languages apart."""
        return Detector({one.source: one.run.tokenizers.source for one in reversed(self.translators)})


def open_catalogue(folders: Sequence[Path], languages: Sequence[str] = (),
                   decode: Mapping[str, Any] = NOTHING, index: str | None = None) -> Catalogue:
    """Opens run folders, ready to decode.

    Args:
        languages: pairs such as "en-de", one for each run that translates, in their order; those of the runs'
            configurations where left out.
        decode: keys of their `decode` sections that are to be others.
        index: the place of one that runs that read look for answers in.

    Raises:
        CheckpointError: what `load` raises.
        ConfigError: not as many pairs as such runs, or no pair; a key of `decode` that a run cannot have; a run that
            reads and no index, or an index and no such run.
        DataError: the index is damaged.
    """
    runs = [_opened(folder, decode) for folder in folders]
    count = sum(run.config.task == "seq2seq" for run in runs)
    if languages and len(languages) != count:
        raise ConfigError(f"{len(languages)} pairs of languages for {count} runs that translate", where="--languages",
                          fix="give one for each of them, in their order, such as en-de")
    served, pairs = list[Served](), iter(languages)
    for folder, run in zip(folders, runs, strict=True):
        data = run.config.data
        is_reader = run.config.task == "reading"
        given = (None, None) if is_reader else (data.source_language, data.target_language)
        if is_reader and index is None:
            raise ConfigError("a run that reads is served with an index", where=str(folder),
                              fix=f"pellucid serve {folder} --index IDX")
        is_told = bool(languages) and run.config.task == "seq2seq"
        source, target = _pair(next(pairs)) if is_told else tuple(code or ANY for code in given)
        name = folder.resolve().name
        taken = {one.name for one in served}
        if name in taken:
            name = next(f"{name}-{n}" for n in range(2, len(folders) + 2) if f"{name}-{n}" not in taken)
        served.append(Served(name, run, source, target))
    if index is not None and all(one.run.config.task != "reading" for one in served):
        raise ConfigError("none of these runs reads what is in an index", where=index, fix="leave out --index")
    opened = None if index is None else open_index(index)
    if opened is not None:
        opened.search("index", 1)  # one on a server that does not answer is told now
    return Catalogue(tuple(served), opened)


def _pair(text: str) -> tuple[str, str]:
    """"en-de", or "zh-Hans:en" where a code has a hyphen of its own."""
    source, _, target = text.partition(":" if ":" in text else "-")
    if not (source and target):
        raise ConfigError("a pair of languages is wanted", where=f"--languages {text[:40]}", fix="such as en-de")
    for code in (source, target):
        check_language(code, f"--languages {text[:40]}")
    if plain(source) == plain(target):
        raise ConfigError("both languages of a pair are the same", where=f"--languages {text[:40]}",
                          fix="such as en-de")
    return source, target


def _opened(folder: Path, decode: Mapping[str, Any]) -> Run:
    """The run, ready to decode, whatever is trained in its folder meanwhile. Its weights are packed by a process of
    their own where they can be kept, so that this one needs no torch."""
    run = _with(_held(folder), decode)
    if run.config.task == "reading":
        return run
    if run.config.task == "classification":
        run.classify([""])
        return run
    if not run.is_packed:
        subprocess.run([sys.executable, "-m", "pellucid", "translate", str(folder), "--decode.precision",
                        run.config.decode.precision], input=b"a\n", check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        run = _with(_held(folder), decode)
    run.route()
    return run


def _held(folder: Path) -> Run:
    run = load(folder)
    return run if run.weights is None else Run(run.folder, run.config, run.tokenizers, run.weights.held())


def _with(run: Run, decode: Mapping[str, Any]) -> Run:
    if decode:
        run.config = replace(run.config, decode=searched_with(run.config, dict(decode), decode))
    return run
