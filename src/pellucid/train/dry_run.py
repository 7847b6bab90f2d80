"""What a configuration would do, found out without writing anything that stays."""

from itertools import islice
from pathlib import Path
from typing import Any

from pellucid.config import RunConfig
from pellucid.data.splits import open_splits
from pellucid.model.build import build, build_classifier, check
from pellucid.train.initialize import source_of
from pellucid.train.unseen import check_unseen

_LINES = 1000  # of a split, that are read


def dry_run(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Opens every split, reads its first lines, and builds the model with the largest vocabulary that it may get.

    Args:
        folder: stands in for the run folder; data that is generated comes to lie there.

    Returns:
        "parameters", what "initialize_from" is; of each split how many lines were read, and whether these are all.

    Raises:
        UserError: what training would stop at before its first step.
    """
    check(config.model)
    source = source_of(config)
    report: dict[str, Any] = {} if source is None else {"initialize_from": f"{source.folder}, which fits"}
    splits = open_splits(config, folder)
    check_unseen(config, splits)
    for name, pairs in splits.items():
        is_made = config.data.train is None and config.data.generated is not None  # just now, and whole
        lines = sum(1 for _ in (pairs if is_made else islice(pairs, _LINES + 1)))
        report[name] = {"lines": lines if is_made else min(lines, _LINES), "all": is_made or lines <= _LINES}
    sizes, shared = [config.tokenizer.vocab_size] * 2, config.tokenizer.shared
    if source is not None:
        sizes = [source.tokenizers.source.size, source.tokenizers.target.size]
        shared = source.tokenizers.shared
    if config.task == "classification":
        model = build_classifier(config.model, sizes[0], 2)
        report["parameters"] = sum(p.numel() for p in model.parameters())
    else:
        report["parameters"] = sum(p.numel() for p in build(config.model, *sizes, shared=shared).parameters())
    return report
