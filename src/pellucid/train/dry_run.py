"""What a configuration would do, found out without writing anything that stays."""

from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from pellucid.config import RunConfig
from pellucid.data.examples import check_tokenizers
from pellucid.data.splits import splits_to_train
from pellucid.data.tokenizers.build import load_tokenizers
from pellucid.data.tokenizers.interface import EOS, UNK
from pellucid.model.build import build, build_classifier, build_reader, check
from pellucid.runs.folder import tokenizer_options
from pellucid.train.initialize import source_of
from pellucid.train.trackers import make_trackers
from pellucid.train.unseen import check_unseen

_LINES = 1000  # of a split, that are read


def dry_run(config: RunConfig, folder: Path) -> dict[str, Any]:
    """Opens every split, reads its first lines, and builds the model with the vocabulary of a tokenizer that is there,
    or the largest that it may get.

    Args:
        folder: stands in for the run folder; data that is generated comes to lie there.

    Returns:
        "parameters", what "initialize_from" is; of each split how many lines were read, and whether these are all.

    Raises:
        UserError: what training would stop at before its first step.
    """
    check(config.model)
    make_trackers(config.train.track)
    source = source_of(config)
    report: dict[str, Any] = {} if source is None else {"initialize_from": f"{source.folder}, which fits"}
    splits = splits_to_train(config, folder)
    check_unseen(config, splits)
    for name, pairs in splits.items():
        is_made = config.data.train is None and config.data.generated is not None  # just now, and whole
        lines = sum(1 for _ in (pairs if is_made else islice(pairs, _LINES + 1)))
        report[name] = {"lines": lines if is_made else min(lines, _LINES), "all": is_made or lines <= _LINES}
    source_vocab, target_vocab, shared = vocabularies_of(config)
    return report | {"parameters": parameters_of(config, source_vocab, target_vocab, shared=shared)}


def vocabularies_of(config: RunConfig) -> tuple[int, int, bool]:
    """Tokens of the source and of the target, and whether they are one vocabulary: of a tokenizer that is there, or of
    the run to start from; else the most that the configuration allows.

    Raises:
        CheckpointError: `tokenizer.path` holds no whole tokenizer.
        ConfigError: what `check_tokenizers` says of it.
    """
    if (path := tokenizer_options(config).path) is None:
        return config.tokenizer.vocab_size, config.tokenizer.vocab_size, config.tokenizer.shared
    tokenizers = load_tokenizers(Path(path))
    check_tokenizers(config, tokenizers)
    return tokenizers.source.size, tokenizers.target.size, tokenizers.shared


def parameters_of(config: RunConfig, source_vocab: int, target_vocab: int, *, shared: bool) -> int:
    """Parameters of the model with vocabularies of these sizes; a classifier has two labels."""
    model: nn.Module
    if config.task == "classification":
        model = build_classifier(config.model, source_vocab, 2)
    elif config.task == "reading":
        model = build_reader(config.model, source_vocab, separator=EOS, unknown=UNK)
    else:
        model = build(config.model, source_vocab, target_vocab, shared=shared)
    return sum(p.numel() for p in model.parameters())
