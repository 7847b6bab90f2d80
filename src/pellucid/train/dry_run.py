"""What a configuration would do, found out without writing anything."""

from __future__ import annotations

import tempfile
from itertools import islice
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.data.splits import open_splits
from pellucid.errors import ConfigError
from pellucid.model.build import build, build_classifier, check


def dry_run(config: RunConfig) -> dict[str, str | int]:
    """Opens every split, reads its first lines, and builds the model with the largest vocabulary that it may get.

    Raises:
        UserError: what training would stop at before its first step.
    """
    try:
        check(config.model)
    except ValueError as error:
        raise ConfigError(str(error), where="model") from error
    report: dict[str, str | int] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, pairs in open_splits(config, Path(folder)).items():
            first = list(islice(pairs, 1000))
            report[name] = f"readable, {len(first):,} lines looked at"
    size = config.tokenizer.vocab_size
    if config.task == "classification":
        model = build_classifier(config.model, size, 2)
        report["parameters"] = sum(p.numel() for p in model.parameters())
    else:
        report["parameters"] = sum(p.numel() for p in build(config.model, size, size,
                                                            shared=config.tokenizer.shared).parameters())
    return report
