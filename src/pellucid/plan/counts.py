"""How many parameters a run has and how many updates it makes: counted from its data, or as far as can be known."""

from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.config.lengths import too_short
from pellucid.errors import UserError
from pellucid.plan.learner import model_of
from pellucid.plan.plan import updates_of
from pellucid.plan.workload import workload_of
from pellucid.runs.folder import tokenizer_options


def counts(config: RunConfig, read: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a dry run cannot tell without the lengths of the data.

    Args:
        read: of a dry run; where it has read all training lines they are counted, else taken as they are configured.
        folder: of the dry run; data that was generated for it is there.

    Returns:
        "parameters" and whether they are "at_most"; "updates" or None; "notes": what the run is too short for.
    """
    train, per_epoch = config.train, None
    is_known = config.tokenizer.kind == "sentencepiece" or tokenizer_options(config).path is not None
    found = {"parameters": read["parameters"], "at_most": not is_known,
             "updates": None if train.epochs else train.steps}
    try:
        is_read = read["train"]["all"] and config.task != "reading"
        workload = workload_of(config, lambda text: None, folder) if is_read else None
    except UserError as error:  # of the tokenizer, or of lengths: training will say it at greater length
        return found | {"notes": [f"training will stop: {error.what}"]}
    if workload is not None:
        updates = updates_of(config, workload)
        found = {"parameters": sum(p.numel() for p in model_of(config, workload).parameters()), "at_most": False,
                 "updates": updates.total}
        per_epoch = None if updates.per_epoch is None else round(updates.per_epoch)
    steps = found["updates"]
    return found | {"notes": [] if steps is None else too_short(train, steps, per_epoch)}
