"""`pellucid doctor`: the data, the environment and, for a run folder, whether all in it is whole and can be resumed."""

import dataclasses
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.data.splits import RECORD, Pairs, open_splits
from pellucid.data.tokenizers.build import Tokenizers, load_tokenizers
from pellucid.doctor.busy import watched
from pellucid.doctor.examine import examine
from pellucid.doctor.finding import SEVERITIES, Example, Finding
from pellucid.doctor.machine import look_around
from pellucid.doctor.questions import examine_questions
from pellucid.errors import CheckpointError, ConfigError, DataError, right_to_read
from pellucid.files import check_folder, checked_sha256, read_json
from pellucid.model.build import check
from pellucid.runs.folder import has_begun, read_config, tokenizer_options
from pellucid.runs.format import AVERAGE, WEIGHTS
from pellucid.runs.slim import MARK
from pellucid.train.journal import read_metrics
from pellucid.train.unseen import check_unseen

_GENERATED = "(generated)"
_WHERE = "run"
_MOMENT = 0.2  # seconds that tell how busy the machine is, at least


@dataclass
class Checkup:
    """All findings, the worst first, and what was learned on the way."""

    findings: list[Finding]
    facts: dict[str, Any] = field(default_factory=dict)

    def count(self, severity: str) -> int:
        """Findings of this severity."""
        return sum(finding.severity == severity for finding in self.findings)

    def to_mapping(self) -> dict[str, Any]:
        """As plain data, ready for JSON."""
        counts = {severity: self.count(severity) for severity in SEVERITIES}
        return {"counts": counts, "findings": [{**asdict(f), "share": f.share} for f in self.findings], **self.facts}


def check_up(config: RunConfig, run: Path | None, out: Path, progress: Callable[[str], None]) -> Checkup:
    """Looks at everything that `config` names, and at the run folder if there is one.

    Args:
        out: where the run is, or would be, written.

    Raises:
        ConfigError: a configuration that could not be trained whatever the data.
    """
    check(config.model)
    config = dataclasses.replace(config, tokenizer=tokenizer_options(config))
    with tempfile.TemporaryDirectory() as folder:
        with watched(_MOMENT) as others:
            splits, found = _divided(config, run, Path(folder))
            look = examine_questions if config.task == "reading" else examine
            data = look(config, splits, lambda: _tokenizers_of(run), progress)
        findings = found + [_shortened(finding, folder) for finding in data.findings]
        facts: dict[str, Any] = {"data": data.facts}
        tokens = data.facts.get("tokens", data.facts)
        vocabulary = tokens.get("vocabulary", config.tokenizer.vocab_size)
        progress("looking at the environment")
        more, facts["environment"] = look_around(config, out, vocabulary, others.share)
        findings += more
        if run is not None:
            more, facts["run"] = check_run(run, splits, progress)
            findings += more
    return Checkup(sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity)), facts)


def _divided(config: RunConfig, run: Path | None, folder: Path) -> tuple[dict[str, Pairs], list[Finding]]:
    """The splits as the run divided them if it was trained on this data, else as a new one would. What is generated and
    is not there is written into `folder`."""
    is_there = run is not None and (config.data.train is not None or (run / "data").exists())
    found = []
    try:
        with right_to_read():
            is_runs = run is not None and is_there and read_config(run).data == config.data
            splits = open_splits(config, run if run is not None and is_runs else folder)
    except CheckpointError as error:
        splits = open_splits(config, folder)
        found.append(Finding.of_error("data_record", "broken", _WHERE, error, "it can be neither resumed nor scored"))
    try:
        check_unseen(config, splits)
    except (ConfigError, CheckpointError) as error:
        found.append(Finding.of_error("leak_start", "broken", "train.initialize_from", error,
                                      "training stops: the score would be of memory, not of skill"))
    except DataError:
        pass  # the data's findings tell about it
    return splits, found


def _shortened(finding: Finding, folder: str) -> Finding:
    """Generated data lies in a folder that is gone afterwards."""
    there = f"{folder}/data"
    examples = tuple(Example(e.place.replace(there, _GENERATED), tuple(t.replace(there, _GENERATED) for t in e.texts))
                     for e in finding.examples)
    return dataclasses.replace(finding, examples=examples)


@right_to_read()
def _tokenizers_of(run: Path | None) -> Tokenizers | None:
    """Those of a run in which something was trained, or that has them already."""
    is_there = run is not None and ((run / "tokenizer").exists() or has_begun(run))
    return load_tokenizers(run / "tokenizer") if run is not None and is_there else None


def check_run(run: Path, splits: dict[str, Pairs],
              progress: Callable[[str], None]) -> tuple[list[Finding], dict[str, Any]]:
    """Whether the files of a run are those that were written, and from where it can be resumed."""
    found: list[Finding] = []
    whole: list[str] = []
    is_slim = (run / MARK).exists()
    pointers = {name: _pointed_to(run / f"{name}.json") for name in (("best",) if is_slim else ("best", "last"))}
    folders: list[Path] = []
    try:
        folders = _checkpoints(run / "checkpoints")
        if not folders:
            found.append(Finding("checkpoint", "note", _WHERE, "nothing has been trained here yet"))
    except CheckpointError as error:
        found.append(_damaged("checkpoint", error))
    for folder in folders:
        progress(f"checking {folder.name}")
        try:
            check_folder(folder)
            whole.append(folder.name)
        except CheckpointError as error:
            found.append(_damaged("checkpoint", error, folder.name in pointers.values() and not _has_weights(folder)))
    for name, checkpoint in pointers.items():
        if folders and checkpoint not in [folder.name for folder in folders]:
            found.append(Finding("pointer", "broken", _WHERE, f"{name}.json names no checkpoint that is there",
                                 examples=(Example(str(run / f"{name}.json"), (checkpoint or "missing",)),),
                                 cost="the run cannot be used" if name == "best" else "the run cannot be resumed",
                                 do="run the same `pellucid train` command again: it is written anew"))
    try:
        read_metrics(run / "metrics.jsonl")
    except CheckpointError as error:
        found.append(_damaged("metrics", error))
    found += _changed_data(run, splits)
    steps = [name for name in whole if name.startswith("step-")]
    return found, {"checkpoints": len(folders), "whole": len(whole), "best": pointers["best"],
                   "resumes_from": steps[-1] if steps and not is_slim else None, "slim": is_slim}


@right_to_read()
def _checkpoints(folder: Path) -> list[Path]:
    there = folder.iterdir() if folder.exists() else ()
    return sorted(path for path in there if path.name.startswith(("step-", AVERAGE)))


def _pointed_to(path: Path) -> str | None:
    try:
        value = read_json(path)
    except CheckpointError:
        return None
    return str(value.get("checkpoint")) if isinstance(value, dict) else None


def _has_weights(checkpoint: Path) -> bool:
    """Whether the weights are whole, which are all that a run in use reads."""
    try:
        checked_sha256(checkpoint, WEIGHTS, anew=True)
    except CheckpointError:
        return False
    return True


def _damaged(kind: str, error: CheckpointError, is_used: bool = True) -> Finding:
    return Finding.of_error(kind, "broken" if is_used else "warning", _WHERE, error,
                            "it cannot be loaded" if is_used else "the run falls back on another checkpoint")


def _changed_data(run: Path, splits: dict[str, Pairs]) -> list[Finding]:
    try:
        before = read_json(run / RECORD)
        changed = [name for name, pairs in splits.items()
                   if name in before and before[name].get("sha256") != pairs.sha256()]
    except (CheckpointError, DataError, AttributeError, TypeError):
        return []  # no record, or files that the data's findings tell about
    return [Finding("data_changed", "warning", _WHERE, f"the {name} data is not what this run began with",
                    cost="the run cannot be resumed", do="put the old files back, or begin anew with another --out")
            for name in changed]
