"""What differs between a cell and its baseline besides what the cell changes: parameters, tokens, operations, updates
of pretraining."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pellucid.ablate.cells import Cell, key_of
from pellucid.ablate.study import Study
from pellucid.config.mapping import to_mapping
from pellucid.errors import CheckpointError, UserError
from pellucid.files import read_json, write_json
from pellucid.plan.memory import rehearse_operations
from pellucid.plan.plan import updates_of
from pellucid.plan.workload import Workload, workload_of
from pellucid.runs.format import AVERAGE, STARTED

CONFOUNDED = 0.03  # more than this share beside the baseline's
_COUNTED = "operations.json"


def count_operations(study: Study, cells: Sequence[Cell], out: Path, say: Callable[[str], None]) -> None:
    """Counts, of each cell for which operations.json has none, the floating-point operations of an update.

    In a rehearsal (plan/memory.py) that runs the update itself, so that whatever a cell adds is in it, as R-Drop's
    second pass. A cell whose data cannot be read has none.
    """
    kept, workloads = _kept(out), dict[str, Workload]()
    for number, cell in enumerate(cells, start=1):
        key = key_of(cell.config, study.budget)
        if key in kept:
            continue
        say(f"counting operations, cell {number} of {len(cells)}: {cell.label}")
        mapping, model = to_mapping(cell.config), cell.config.model
        data = repr([mapping["task"], mapping["data"], mapping["tokenizer"], cell.config.train.initialize_from,
                     model.max_length])
        try:
            if data not in workloads:
                workloads[data] = workload_of(cell.config, say)
            tokens = updates_of(cell.config, workloads[data]).tokens
            kept[key] = rehearse_operations(cell.config, workloads[data]).of_update(tokens) / tokens
        except UserError:
            continue
        write_json(out / _COUNTED, kept)


def operations_of(study: Study, cells: Sequence[Cell], out: Path) -> dict[str, float]:
    """Floating-point operations of an update for each source and target token, by the label of the cell, as far as they
    were counted."""
    kept = _kept(out)
    keys = {cell.label: key_of(cell.config, study.budget) for cell in cells}
    return {label: kept[key] for label, key in keys.items() if key in kept}


def _kept(out: Path) -> dict[str, float]:
    path = out / _COUNTED
    if not path.exists():
        return {}
    try:
        return {str(key): float(value) for key, value in dict(read_json(path)).items()}
    except (TypeError, ValueError) as error:
        raise CheckpointError("the counts of operations are damaged", where=str(path),
                              fix="remove the file: they are counted again") from error


def pretraining_of(folder: Path) -> int:
    """The updates that a run's first weights had already, through all runs that they came from; 0 of one that began
    anew."""
    updates, seen = 0, set[Path]()
    while (path := folder / STARTED).exists() and folder not in seen:
        seen.add(folder)
        started = read_json(path)
        folder = Path(started["run"])
        updates += _step_of(started, folder)
    return updates


def _step_of(started: dict[str, Any], run: Path) -> int:
    """The step of the weights that a run began with. Older versions told the checkpoint alone, whose name has it; that
    of a mean has none, and the run is asked."""
    if "step" not in started and started["checkpoint"] == AVERAGE:
        started = read_json(run / "best.json")
    return int(started["step"] if "step" in started else started["checkpoint"].removeprefix("step-"))


def confounds(here: dict[str, float | None], there: dict[str, float | None]) -> tuple[str, ...]:
    """In words, what of a cell lies by more than 3 % beside the baseline's; what either lacks is left out."""
    told = []
    for name, a in here.items():
        b = there[name]
        if a is None or b is None:
            continue
        if b == 0 and a > 0:
            told.append(f"{name} {a:,.0f} where the baseline has none")
        elif b and abs(a / b - 1) > CONFOUNDED:
            told.append(f"{name} {change(a, b)}")
    return tuple(told)


def change(a: float, b: float) -> str:
    """How far a lies from b: ``+12 %``, ``−40 %``, ``×2.5``."""
    ratio = a / b
    return f"×{ratio:.2g}" if ratio >= 2 else f"{100 * (ratio - 1):+.0f} %".replace("-", "−")
