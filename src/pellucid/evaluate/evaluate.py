"""`pellucid evaluate`: runs against data they never saw, each with its scores and intervals, and against each other."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.config import Split
from pellucid.data.sources import fields_for
from pellucid.data.splits import Pairs, open_splits
from pellucid.errors import ConfigError
from pellucid.evaluate.classification import classification_scores
from pellucid.evaluate.comparison import Evaluated, as_markdown, compare
from pellucid.evaluate.perplexity import perplexity_scores, perplexity_statistics
from pellucid.evaluate.search_errors import search_errors
from pellucid.evaluate.significance import SentenceStatistics
from pellucid.evaluate.translation import translation_scores
from pellucid.files import make_folder, write_json, write_text
from pellucid.runs.run import Run, load

Report = dict[str, Any]


def evaluate_runs(folders: Sequence[Path], split: str, files: tuple[str, str] | None,
                  say: Callable[[str], None]) -> Report:
    """Scores each run on its own `split`, or on two `files` of sources and targets, and compares the runs pairwise.

    Hypotheses and scores are kept in each run's evaluation/ folder, the comparison in that of the first.

    Returns:
        {"runs": [scores of a run], "comparison": [{"score", "a", "b", "difference", "p", "p_randomisation"}],
        "differences": [{"a", "b", "score", "by_length", "by_frequency", "frequency_in", "sentences"}]}, see
        `evaluate.comparison`.

    Raises:
        UserError: a run or its data cannot be read; runs of different tasks or data are compared.
    """
    reports: list[Report] = []
    evaluated: list[Evaluated] = []
    first: list[tuple[str, str]] = []
    name = split if files is None else "files"
    for folder in folders:
        run = load(folder)
        pairs = pairs_of(run, split, files)
        first = first or pairs
        if [b for _, b in pairs] != [b for _, b in first]:
            raise ConfigError("the runs were scored on different data, so they cannot be compared",
                              where=f"split {split}", fix="give --source and --target, the same for all")
        report, one = evaluate_run(run, pairs, name, say)
        reports.append(report)
        evaluated.append(one)
    comparison, differences = compare(evaluated, first, say)
    report = {"runs": reports, "comparison": comparison, "differences": differences}
    if differences:
        write_text(folders[0] / "evaluation" / f"{name}-comparison.md", as_markdown(report))
    return report


def pairs_of(run: Run, split: str, files: tuple[str, str] | None) -> list[tuple[str, str]]:
    """The pairs to score, read into memory.

    Raises:
        ConfigError: the run has no such split, or none that could be scored.
        DataError: the files cannot be read, or hold nothing; a label was never seen in training.
    """
    if run.config.data.objective == "span_corruption":
        raise ConfigError("a pretrained run has nothing to score but its validation loss", where=str(run.folder),
                          why="it was trained to restore text", fix=f"fine-tune it: pellucid train CONFIG "
                          f"--train.initialize_from {run.folder}")
    if files is not None:
        fields = fields_for(run.config.task, run.config.data)
        pairs = Pairs("files", Split(source=files[0], target=files[1]), fields)
    else:
        splits = open_splits(run.config, run.folder)
        if split not in splits:
            raise ConfigError(f"this run has no {split} data", where=str(run.folder / "config.yaml"),
                              fix=f"choose --split {' or '.join(splits)}, or give --source and --target")
        pairs = splits[split]
    found = list(pairs)
    if run.config.task == "classification":
        for i, (_, label) in enumerate(found):
            run.tokenizers.label_id(label, partial(pairs.locate, i))
    return found


def evaluate_run(run: Run, pairs: list[tuple[str, str]], split: str,
                 say: Callable[[str], None]) -> tuple[Report, Evaluated]:
    """The scores of one run with intervals, and what they come from; written to evaluation/ as well."""
    say(f"{run.folder}: {len(pairs):,} {split} examples")
    score = _score_classifier if run.config.task == "classification" else _score_translation
    outputs, scores, metrics = score(run, pairs, say)
    report: Report = {"run": str(run.folder), "split": split, "n": len(pairs), **scores}
    place = run.folder / "evaluation"
    make_folder(place)
    write_text(place / f"{split}.hyp", "".join(output.replace("\n", " ") + "\n" for output in outputs))
    write_json(place / f"{split}.json", json.loads(json.dumps(report)))
    return report, Evaluated(str(run.folder), run, outputs, metrics)


def _score_translation(run: Run, pairs: list[tuple[str, str]],
                       say: Callable[[str], None]) -> tuple[list[str], Report, dict[str, SentenceStatistics]]:
    sources, targets, route = [a for a, _ in pairs], [b for _, b in pairs], run.route()
    generated = run.generate(sources, progress=lambda done: say(f"{done:,} of {len(pairs):,} decoded"))
    outputs = [one.text for one in generated]
    scores = translation_scores(outputs, targets)
    scored = run.score(sources, targets, cut=True)
    nats, tokens = [-one.log_probability for one in scored], [len(one.tokens) for one in scored]
    perplexity = perplexity_scores(nats, tokens)
    names = ("bleu", "bleu_lowercase", "chrf", "ter", "meteor", "exact")
    report = {name: getattr(scores, name) for name in names} | {"perplexity": perplexity.perplexity}
    report["interval"] = {**scores.interval, **perplexity.interval}
    report["signature"] = scores.signature
    report["search"] = asdict(search_errors(run, sources, generated, scored))
    report["route"] = asdict(route)
    return outputs, report, scores.statistics | {"perplexity": perplexity_statistics(nats, tokens)}


def _score_classifier(run: Run, pairs: list[tuple[str, str]],
                      say: Callable[[str], None]) -> tuple[list[str], Report, dict[str, SentenceStatistics]]:
    names = run.tokenizers.labels
    predicted = [one.label for one in run.classify([a for a, _ in pairs])]
    scores = classification_scores(predicted, [b for _, b in pairs], names)
    report = {"accuracy": scores.accuracy, "macro_f1": scores.macro_f1, "interval": scores.interval,
              "signature": f"labels:{len(names)}|bootstrap:1000", "confusion": scores.confusion.tolist(),
              "labels": list(names)}
    return predicted, report, scores.statistics
