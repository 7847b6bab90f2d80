"""What `pellucid evaluate` has found of a run's weights."""

from pathlib import Path
from typing import Any

from pellucid.errors import CheckpointError
from pellucid.files import checked_sha256, read_json
from pellucid.runs.folder import chosen_checkpoint
from pellucid.runs.format import WEIGHTS

EVALUATION = "evaluation"  # the folder, in that of the run


def scores_in_use(folder: Path, split: str) -> dict[str, Any] | None:
    """The report on a split, in which ``weights`` is a SHA-256; None where there is none that can be read, or the run
    has other weights in use since. One of a version that did not note them is taken for theirs."""
    try:
        report = read_json(folder / EVALUATION / f"{split}.json")
        if not isinstance(report, dict):
            return None
        own = report.get("weights")
        return report if own in (None, checked_sha256(chosen_checkpoint(folder), WEIGHTS)) else None
    except (OSError, CheckpointError):
        return None
