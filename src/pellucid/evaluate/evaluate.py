"""`pellucid evaluate`: runs against data they never saw, each with its scores and intervals, and against each other."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from pellucid.config import Split
from pellucid.config.mapping import differing
from pellucid.data.reading import question_of
from pellucid.data.sources import fields_for
from pellucid.data.splits import Pairs, open_splits
from pellucid.errors import ConfigError, PellucidWarning
from pellucid.evaluate import per_character
from pellucid.evaluate.answering import Opened, score_reader
from pellucid.evaluate.classification import classification_statistics, confusion_table
from pellucid.evaluate.comparison import Evaluated, chosen_score, compare, in_lowercase
from pellucid.evaluate.comparison_page import as_markdown
from pellucid.evaluate.finite import finite
from pellucid.evaluate.perplexity import perplexity_statistics
from pellucid.evaluate.search_errors import search_errors
from pellucid.evaluate.significance import SentenceStatistics, as_report, with_sources
from pellucid.evaluate.translation import LOWERCASE, SCORES, translation_signatures, translation_statistics
from pellucid.files import make_folder, write_json, write_text
from pellucid.language import so_many
from pellucid.runs.care import look_at
from pellucid.runs.passages import with_passages
from pellucid.runs.run import Run, load
from pellucid.runs.scored import EVALUATION

Report = dict[str, Any]


def evaluate_runs(folders: Sequence[Path], split: str, files: tuple[str, str] | None,
                  say: Callable[[str], None], score: str | None = None, without: Sequence[str] = (),
                  opened: Opened | None = None) -> Report:
    """Scores each run on its own `split`, or on two `files` of sources and targets, and compares the runs pairwise.

    Hypotheses and scores are kept in each run's evaluation/ folder, the comparison in that of the first.

    Args:
        score: that the runs are tested by; if left out, the one of their task (`evaluate.comparison.chosen_score`).
        without: kinds of scores that are not computed, of `evaluate.translation.KINDS`.
        opened: an index in which readers are to look for their answers, too.

    Returns:
        {"runs": [scores of a run], "keys": [{"key", "values"}] (of the configuration, in which the runs differ),
        "comparison": [{"score", "a", "b", "difference", "interval", "p", "p_randomisation", "p_holm"}],
        "differences": [{"a", "b", "score", "notes", "by_length", "by_frequency", "frequency_in", "sentences_by",
        "sentences"}]}, see
        `evaluate.comparison`.

    Raises:
        UserError: a run or its data cannot be read, or is given twice; runs of different tasks or data are compared,
            or the score cannot compare them.
    """
    reports: list[Report] = []
    evaluated: list[Evaluated] = []
    name = split if files is None else "files"
    for place, folder in enumerate(folders):
        if folder.resolve() in [other.resolve() for other in folders[:place]]:
            raise ConfigError("a run is given twice", where=str(folder), fix="give each run once")
    runs = [load(folder) for folder in folders]
    chosen = chosen_score(runs, score, opened is not None)
    for run in runs:
        if opened is not None and run.config.task != "reading":
            raise ConfigError("this run cannot look for answers in an index", where=str(run.folder),
                              why=f"it was trained for {run.config.task}, not reading", fix="leave out --index")
    names = tuple(each for each in SCORES if each.removesuffix(LOWERCASE) not in without)
    if len(runs) > 1 and chosen in SCORES and chosen not in names:
        raise ConfigError(f"the runs are to be compared by {chosen}", where=f"--without {' '.join(without)}",
                          fix="leave out another score, or choose --score")
    given = [pairs_of(run, split, files) for run in runs]
    first = given[0]
    for pairs in given:
        if [b for _, b in pairs] != [b for _, b in first] or _repeated(pairs) != _repeated(first):
            raise ConfigError("the runs would be scored on different data, so they cannot be compared",
                              where=f"split {split}", fix="give --source and --target, the same for all")
    for run, pairs in zip(runs, given, strict=True):
        report, one = evaluate_run(run, pairs, name, say, names, opened)
        reports.append(report)
        evaluated.append(one)
    if runs[0].config.task == "reading":
        first = [(asked.text, " | ".join(answer.text for answer in asked.answers))
                 for asked in (question_of(line) for _, line in first)]
    comparison, differences = compare(evaluated, first, chosen, say)
    keys = [{"key": key, "values": values} for key, values in differing([run.config for run in runs])]
    report = {"runs": reports, "keys": keys, "comparison": comparison, "differences": differences}
    if differences:
        write_text(folders[0] / EVALUATION / f"{name}-comparison.md", as_markdown(report))
    return report


def _repeated(pairs: Sequence[tuple[str, str]]) -> list[int]:
    """Which sources are the same one: by these, and not by what they say, are sentences resampled."""
    known: dict[str, int] = {}
    return [known.setdefault(source, len(known)) for source, _ in pairs]


def pairs_of(run: Run, split: str, files: tuple[str, str] | None) -> list[tuple[str, str]]:
    """The pairs to score, read into memory; those without a label are left out, with a warning.

    Raises:
        ConfigError: the run has no such split, or none that could be scored.
        DataError: the files cannot be read, or hold nothing; a label was never seen in training.
    """
    if run.config.data.objective == "span_corruption":
        raise ConfigError("a pretrained run has nothing to score but its validation loss", where=str(run.folder),
                          why="it was trained to restore text", fix=f"fine-tune it: pellucid train CONFIG "
                          f"--train.initialize_from {run.folder}")
    if files is not None:
        if run.config.task == "reading":
            raise ConfigError("questions are in SQuAD's layout, and not in two text files", where="--source, --target",
                              fix="train with them as data.test, and choose --split")
        fields = fields_for(run.config.task, run.config.data)
        given = {"files": Pairs("files", Split(source=files[0], target=files[1]), fields)}
        pairs = with_passages(given, run.config, run.folder)["files"]
    elif run.config.data.train is None and run.config.data.generated is None:
        raise ConfigError("this run has no data of its own", where=str(run.folder), why="it was trained elsewhere",
                          fix="give --source and --target")
    else:
        splits = with_passages(open_splits(run.config, run.folder), run.config, run.folder)
        if split not in splits:
            raise ConfigError(f"this run has no {split} data", where=str(run.folder / "config.yaml"),
                              fix=f"choose --split {' or '.join(splits)}, or give --source and --target")
        pairs = splits[split]
    found = list(pairs)
    if run.config.task == "classification":
        for i, (_, label) in enumerate(found):
            if label:
                run.tokenizers.label_id(label, partial(pairs.locate, i))
        labelled = [pair for pair in found if pair[1]]
        if len(labelled) < len(found):
            without = f"{len(found) - len(labelled):,} of {len(found):,} examples"
            warnings.warn(f"{without} have no label, and are not scored", PellucidWarning, stacklevel=3)
        return labelled
    return found


def evaluate_run(run: Run, pairs: list[tuple[str, str]], split: str,
                 say: Callable[[str], None], names: Sequence[str], opened: Opened | None) -> tuple[Report, Evaluated]:
    """The scores of one run with intervals, and what they come from; written to evaluation/ as well."""
    say(f"{run.folder}: {so_many(len(pairs), f'{split} example')}")
    if run.config.task == "reading":
        outputs, scores, metrics = score_reader(run, pairs, opened, say)
    else:
        outputs, scores, metrics = (_score_classifier(run, pairs, say) if run.config.task == "classification" else
                                    _score_translation(run, pairs, say, names))
    sources = len({source for source, _ in pairs})
    report: Report = {"run": str(run.folder), "split": split, "n": len(pairs), "sources": sources,
                      "state": look_at(run.folder).state, "weights": run.weights.sha256 if run.weights else None,
                      **scores}
    place = run.folder / EVALUATION
    make_folder(place)
    write_text(place / f"{split}.hyp", "".join(output.replace("\n", " ") + "\n" for output in outputs))
    write_json(place / f"{split}.json", json.loads(json.dumps(report)))
    return report, Evaluated(str(run.folder), run, outputs, metrics, report.get("unknown_share", 0.0))


def _score_translation(run: Run, pairs: list[tuple[str, str]], say: Callable[[str], None], names: Sequence[str],
                       ) -> tuple[list[str], Report, dict[str, SentenceStatistics]]:
    sources, targets, route = [a for a, _ in pairs], [b for _, b in pairs], run.route()
    generated = run.generate(sources, progress=lambda done: say(f"{done:,} of {len(pairs):,} decoded"))
    outputs = [one.text for one in generated]
    scored = run.score(sources, targets, cut=True)
    nats, tokens = [-one.log_probability for one in scored], [len(one.tokens) for one in scored]
    characters = per_character.reference_characters(run.tokenizers.target, targets, tokens)
    unknown = per_character.unknown_share(run.tokenizers.target, targets)
    statistics = _with_sources(translation_statistics(outputs, targets, names) | {
        "perplexity": perplexity_statistics(nats, tokens),
        per_character.NAME: per_character.per_character_statistics(nats, characters)}, sources)
    report: Report = finite(as_report(statistics))
    report["case"], report["unknown_share"] = "lowercase" if in_lowercase([run]) else "mixed", unknown
    report["cut"] = sum(one.cut > 0 or len(ids) >= count for one, ids, count in
                        zip(scored, run.tokenizers.target.encode_batch(targets), tokens, strict=True))
    report["stripped_share"] = per_character.stripped_share(run.tokenizers.config, targets)
    signatures = translation_signatures(targets, names)
    report["signature"] = signatures["bleu"]
    report["signatures"] = signatures | _likelihood_signatures(run, unknown)
    report["search"] = asdict(search_errors(run, sources, generated, scored))
    report["route"] = asdict(route)
    return outputs, report, statistics


def _with_sources(statistics: dict[str, SentenceStatistics], sources: Sequence[str]) -> dict[str, SentenceStatistics]:
    return {name: with_sources(metric, sources) for name, metric in statistics.items()}


def _likelihood_signatures(run: Run, unknown: float) -> dict[str, str]:
    """What two runs must have in common for their perplexities, and for their nats per character."""
    tidy = run.tokenizers.config
    text = f"case:{'lc' if tidy.lowercase else 'mixed'}|punctuation:{'no' if tidy.strip_punctuation else 'yes'}"
    return {"perplexity": f"end:yes|tok:{run.tokenizers.target_sha256()[:12]}",
            per_character.NAME: f"end:yes|{text}|unknown:{100 * unknown:.2f}%"}


def _score_classifier(run: Run, pairs: list[tuple[str, str]],
                      say: Callable[[str], None]) -> tuple[list[str], Report, dict[str, SentenceStatistics]]:
    names = run.tokenizers.labels
    sources, true = [a for a, _ in pairs], [b for _, b in pairs]
    classified = run.classify(sources)
    predicted = [one.label for one in classified]
    statistics = _with_sources(classification_statistics(predicted, true, names), sources)
    signature = f"labels:{len(names)}"
    report = as_report(statistics) | {
        "signature": signature, "signatures": {"accuracy": signature, "macro_f1": f"{signature}|zero_division:0"},
        "cut": sum(one.cut > 0 for one in classified),
        "confusion": confusion_table(predicted, true, names).tolist(), "labels": list(names)}
    return predicted, report, statistics
