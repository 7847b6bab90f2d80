"""Runs side by side: scores that are about the same thing, under one policy of case, and p corrected for the pairs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pellucid.config import DataConfig, Generated, RunConfig, Split, TokenizerConfig
from pellucid.data.tokenizers.build import train_tokenizers
from pellucid.errors import ConfigError
from pellucid.evaluate.comparison import Evaluated, chosen_score, compare, incomparable
from pellucid.evaluate.comparison_page import as_markdown
from pellucid.evaluate.comparison_text import by_length_of, table
from pellucid.evaluate.comparison_text import compared as side_by_side
from pellucid.evaluate.holm import holm
from pellucid.evaluate.per_character import (
    per_character_statistics,
    reference_characters,
    stripped_share,
    unknown_share,
)
from pellucid.evaluate.perplexity import perplexity_statistics
from pellucid.evaluate.significance import SentenceStatistics, mean_percentage
from pellucid.evaluate.translation import translation_statistics
from pellucid.runs.run import Run

PAIRS = [("a dog runs", "Ein Hund rennt weit"), ("a cat sits", "Eine Katze sitzt hier"),
         ("two men", "Zwei Männer hier")]
TEXT = DataConfig(train=Split(path="train.tsv"))
WORD, CHARACTER = TokenizerConfig(kind="word", shared=False), TokenizerConfig(kind="character", shared=False)
LOWER = TokenizerConfig(kind="word", shared=False, lowercase=True)


def run_of(name: str, tokenizer: TokenizerConfig = WORD, data: DataConfig = TEXT) -> Run:
    """A run that is only looked at: no model, no file."""
    config = RunConfig(data=data, tokenizer=tokenizer)
    model: Any = None
    return Run(Path(name), config, train_tokenizers(tokenizer, PAIRS, "seq2seq"), model)


def evaluated(name: str, outputs: list[str], tokenizer: TokenizerConfig = WORD, nats: float = 5.0) -> Evaluated:
    run, references = run_of(name, tokenizer), [reference for _, reference in PAIRS]
    tokens = [len(ids) + 1 for ids in run.tokenizers.target.encode_batch(references)]
    characters = reference_characters(run.tokenizers.target, references, tokens)
    statistics = translation_statistics(outputs, references)
    statistics["perplexity"] = perplexity_statistics([nats] * 3, tokens)
    statistics["nats_per_character"] = per_character_statistics([nats] * 3, characters)
    return Evaluated(name, run, outputs, statistics, unknown_share(run.tokenizers.target, references))


def compared(*runs: Evaluated, chosen: str | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    score = chosen_score([one.run for one in runs], chosen)
    return compare(runs, PAIRS, score, lambda text: None)


RIGHT = [reference for _, reference in PAIRS]
WRONG = ["Ein Hund", "Eine Katze sitzt", "Männer"]


def test_perplexity_is_compared_under_one_target_tokenizer_alone() -> None:
    rows, (detail,) = compared(evaluated("a", RIGHT), evaluated("b", WRONG))
    assert [row["score"] for row in rows] == ["chrf", "bleu", "ter", "meteor", "exact", "perplexity"]
    assert detail["notes"] == []
    rows, (detail,) = compared(evaluated("a", RIGHT), evaluated("b", WRONG, CHARACTER))
    assert [row["score"] for row in rows][-1] == "nats_per_character"
    assert "perplexity" not in {row["score"] for row in rows}
    assert any("perplexity is not compared" in note and "tokenizers differ" in note for note in detail["notes"])


def test_scores_that_were_left_out_are_not_missed() -> None:
    runs = [evaluated(name, outputs) for name, outputs in (("a", RIGHT), ("b", WRONG))]
    kept = ("bleu", "exact", "perplexity")
    runs = [dataclasses.replace(one, statistics={name: one.statistics[name] for name in kept})
            for one in runs]
    rows, (detail,) = compared(*runs, chosen="bleu")
    assert [row["score"] for row in rows] == ["bleu", "exact", "perplexity"]
    assert detail["sentences_by"] == "bleu"  # chrF, were it there
    assert detail["frequency_in"] == "the references"  # the training data has gone


def test_nats_per_character_is_one_number_for_every_tokenizer() -> None:
    rows, _ = compared(evaluated("a", RIGHT), evaluated("b", RIGHT, CHARACTER))
    assert rows[-1]["difference"] == 0  # the same probability of the same text
    by_word, by_character = (evaluated("a", RIGHT, one).statistics["perplexity"] for one in (WORD, CHARACTER))
    assert by_word.statistics[0, 1] == 5 != by_character.statistics[0, 1]


def test_unknown_tokens_are_named() -> None:
    rare = TokenizerConfig(kind="word", shared=False, min_frequency=2)
    first, second = evaluated("a", RIGHT, rare), evaluated("b", RIGHT, CHARACTER)
    assert first.unknown == pytest.approx(9 / 11)  # of the words, "hier" alone occurs twice
    _, (detail,) = compared(first, second)
    assert any("81.82 % of a's" in note and "0.00 % of b's" in note for note in detail["notes"])


def test_texts_that_a_tokenizer_changes_are_not_compared_by_their_likelihood() -> None:
    rows, (detail,) = compared(evaluated("a", RIGHT), evaluated("b", RIGHT, LOWER))
    assert not {"perplexity", "nats_per_character"} & {row["score"] for row in rows}
    assert len(detail["notes"]) == 2


def test_marks_that_a_run_cannot_write_are_told() -> None:
    stripping = TokenizerConfig(kind="word", shared=False, strip_punctuation=True)
    assert stripped_share(stripping, ["¿sí?", "no", ""]) == pytest.approx(2 / 6)
    assert stripped_share(WORD, ["¿sí?"]) == stripped_share(stripping, [""]) == 0
    told = "b strips punctuation, and is charged for the marks of the references, which the other can write"
    assert told in compared(evaluated("a", RIGHT), evaluated("b", RIGHT, stripping))[1][0]["notes"]
    both = compared(evaluated("a", RIGHT, stripping), evaluated("b", WRONG, stripping))
    assert both[1][0]["notes"] == []


def test_infinite_perplexities_are_not_compared() -> None:
    rows, (detail,) = compared(evaluated("a", RIGHT, nats=1e5), evaluated("b", WRONG, nats=1e5))
    assert "perplexity" not in {row["score"] for row in rows}
    assert detail["notes"] == ["perplexity is not compared: it is infinite"]


def test_a_run_that_writes_lower_case_is_compared_in_lower_case() -> None:
    lower = [text.lower() for text in RIGHT]
    rows, (detail,) = compared(evaluated("a", RIGHT), evaluated("b", lower, LOWER))
    assert [row["score"] for row in rows] == [
        f"{kind}_lowercase" for kind in ("chrf", "bleu", "ter", "meteor", "exact")]
    assert {row["difference"] for row in rows} == {0}  # nothing but case differs
    assert (detail["score"], detail["sentences_by"], detail["sentences"]) == ("chrf_lowercase", "chrf_lowercase", [])
    assert all(group["difference"] == 0 for group in detail["by_length"] + detail["by_frequency"])


def test_the_score_is_chosen_by_the_task() -> None:
    numbers, grammar = (DataConfig(generated=Generated(task=task)) for task in ("copy", "grammar"))
    assert chosen_score([run_of("a")], None) == "chrf"
    assert chosen_score([run_of("a"), run_of("b", LOWER)], None) == "chrf_lowercase"
    assert chosen_score([run_of("a", data=numbers)], None) == "exact"
    assert chosen_score([run_of("a", data=grammar)], None) == "chrf"
    assert chosen_score([run_of("a")], "perplexity") == "perplexity"
    with pytest.raises(ConfigError, match="perplexity does not compare a with b"):
        chosen_score([run_of("a"), run_of("b", CHARACTER)], "perplexity")
    with pytest.raises(ConfigError, match="no score bluE"):
        chosen_score([run_of("a")], "bluE")


def test_p_is_corrected_over_the_pairs_of_runs_for_the_chosen_score_alone() -> None:
    runs = [evaluated(name, outputs) for name, outputs in (("a", RIGHT), ("b", WRONG), ("c", ["", "", ""]))]
    rows, details = compared(*runs, chosen="bleu")
    chosen = [row for row in rows if row["score"] == "bleu"]
    assert len(chosen) == len(details) == 3
    assert [row["p_holm"] for row in chosen] == holm([row["p"] for row in chosen])
    assert min(row["p_holm"] for row in chosen) == 3 * min(row["p"] for row in chosen)
    assert all(row["p_holm"] is None for row in rows if row["score"] != "bleu")


def test_every_difference_has_its_interval() -> None:
    rows, details = compared(evaluated("a", RIGHT), evaluated("b", WRONG, nats=6.0))
    for row in rows:
        low, high = row["interval"]
        assert low <= row["difference"] <= high
        assert low < high or row["score"] == "exact"
    page = as_markdown({"runs": [{"split": "test", "n": 3, "sources": 3, "run": "a"}, {"run": "b"}],
                        "keys": [{"key": "train.compile", "values": [None, True]}], "comparison": rows,
                        "differences": details})
    assert "| train.compile | null | true |" in page
    assert page.count("exploratory |") == 5
    assert all(f"| {row['score']} | " in page for row in rows)


def test_the_page_has_of_each_pair_its_own_rows_notes_and_sentences() -> None:
    rows, details = compared(evaluated("a", RIGHT), evaluated("b", WRONG, CHARACTER),
                             evaluated("c", ["*x* | y", "", ""]))
    page = as_markdown({"runs": [{"split": "test", "n": 3, "sources": 3}], "keys": [], "comparison": rows,
                        "differences": details})
    _, *parts = page.split("\n## ")
    assert [part.partition("\n")[0] for part in parts] == ["a = a, b = b", "a = a, b = c", "a = b, b = c"]
    for part, detail in zip(parts, details, strict=True):
        own = [row for row in rows if (row["a"], row["b"]) == (detail["a"], detail["b"])]
        told = [line.split(" | ")[:2] for line in part.splitlines() if line.count(" | ") == 5 and line[2:3].islower()]
        assert [row for row in told if row[0] != "| score"][: len(own)] == [
            [f"| {row['score']}", f"{row['difference']:+.3f}"] for row in own]
        assert ("perplexity is not compared: " in part) == ("b" in (detail["a"], detail["b"]))
        assert part.count("### The sentences that differ most, by chrf") == 1
        assert part.count("\n- source: ") == len(detail["sentences"]) == 3
    assert r"- b: \*x\* \| y" in parts[1]
    assert "| 1 to 9 times | 11 | 100.00 | 70.59 | +29.41 | -14.37 to +73.20 |" in parts[0]


def test_the_terminal_has_the_numbers_of_two_runs_at_any_width() -> None:
    rows, (detail,) = compared(evaluated("a", RIGHT), evaluated("b", WRONG, CHARACTER, nats=7.0))
    wide = list(side_by_side(detail, rows, 80))
    for line in ("  chrf                +47.13   -23.16 to +100.00  0.2500    0.2500       0.2500",
                 "  nats_per_character  -0.102   -0.134 to +0.000   0.2500    0.2500  exploratory",
                 "  perplexity is not compared: it is per token, and the target tokenizers differ",
                 "  chrf by length of the source",
                 "  2 words                    1  100.00   33.62   +66.38   -53.65 to +100.00",
                 "  F1 of words, by how often in the references",
                 "  1 to 9 times              11  100.00   70.59   +29.41   -14.37 to +73.20",
                 "  The sentences that differ most, by chrf (3 in evaluation/ of a)",
                 "  line 3: a 100.0, b 33.6", "    b          Männer"):
        assert line in wide
    narrow = "\n".join(side_by_side(detail, rows, 50))
    for lines in ("  chrf\n      a - b +47.13  (-23.16 to +100.00)\n      p boot 0.2500  p random 0.2500\n"
                  "      p Holm 0.2500\n", "p random 0.2500  exploratory\n  ter\n",
                  "  2 words\n      n 1  a 100.00  b 33.62  a - b +66.38\n      (-53.65 to +100.00)\n"):
        assert lines in narrow


def test_rows_that_share_a_source_are_told_wherever_examples_are() -> None:
    """On the page, and above the table of three runs, too."""
    rows, details = compared(*(evaluated(name, RIGHT) for name in "abc"))
    scores = dict.fromkeys(("chrf", "bleu", "ter", "meteor", "exact", "perplexity"), 100.0)
    told: dict[str, Any] = {"split": "test", "n": 3, **scores, "interval": dict.fromkeys(scores, (90.0, 100.0))}
    for sources, wanted in ((3, "test, 3 examples"), (2, "test, 3 examples of 2 sources"),
                            (1, "test, 3 examples of 1 source")):
        report = {"runs": [{**told, "run": name, "sources": sources} for name in "abc"], "keys": [],
                  "comparison": rows, "differences": details}
        page = as_markdown(report).splitlines()
        assert page[0] == f"# Runs compared on {wanted}"
        assert next(table(report, 80)) == wanted
        assert "differ most" not in "".join(page)  # all are alike


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, None, 0.03]) == [0.03, 0.06, None, 0.06]


def test_the_target_side_decides_whether_perplexities_are_comparable() -> None:
    other = [(source + " more", target) for source, target in PAIRS]
    a, b = train_tokenizers(WORD, PAIRS, "seq2seq"), train_tokenizers(WORD, other, "seq2seq")
    assert a.sha256() != b.sha256()
    assert a.target_sha256() == b.target_sha256()
    assert not incomparable("perplexity", a, b)
    for different in (CHARACTER, LOWER):
        assert incomparable("perplexity", a, train_tokenizers(different, PAIRS, "seq2seq"))


def test_characters_of_a_reference_and_its_end() -> None:
    tokenizer = train_tokenizers(CHARACTER, PAIRS, "seq2seq").target
    assert reference_characters(tokenizer, ["hier", ""], [5, 1]) == [5, 1]
    assert reference_characters(tokenizer, ["hier"], [3]) == [3]  # cut: two characters and the end were scored
    table = per_character_statistics([3.0, 1.0], [5, 1])
    assert table.score(table.statistics.sum(axis=0)) == pytest.approx(4 / 6)
    with pytest.raises(ValueError, match="sentence 2 has 0 characters"):
        per_character_statistics([1.0, 1.0], [1, 0])
    with pytest.raises(ValueError, match="1 log-likelihoods but 2"):
        per_character_statistics([1.0], [1, 2])


def test_classifiers_are_tested_by_accuracy() -> None:
    config = RunConfig(task="classification", data=TEXT, tokenizer=WORD)
    model: Any = None
    tokenizers = train_tokenizers(WORD, [("a b", "x"), ("b", "y")], "classification")
    runs = [Run(Path(name), config, tokenizers, model) for name in "ab"]
    assert chosen_score(runs, None) == "accuracy"
    with pytest.raises(ConfigError, match="different tasks"):
        chosen_score([runs[0], run_of("c")], None)
    statistics = {name: SentenceStatistics(name, np.array([[1.0, 1.0], [0.0, 1.0]]), mean_percentage)
                  for name in ("accuracy", "macro_f1")}
    sides = [Evaluated(run.folder.name, run, ["x", "x"], statistics, 0.0) for run in runs]
    rows, (detail,) = compare(sides, [("a b", "x"), ("b", "y")], "accuracy", lambda text: None)
    assert [row["score"] for row in rows] == ["accuracy", "macro_f1"]
    assert "by_frequency" not in detail
    assert detail["notes"] == []
    rare = {**statistics, "macro_f1": dataclasses.replace(statistics["macro_f1"], is_smooth=False)}
    rows, (detail,) = compare([dataclasses.replace(side, statistics=rare) for side in sides],
                              [("a b", "x"), ("b", "y")], "accuracy", lambda text: None)
    assert rows[1]["p"] == rows[1]["p_randomisation"]
    assert detail["notes"] == ["macro_f1 is tested by exchanges alone: both its p are by approximate randomisation"]


def test_of_many_runs_some_can_differ_significantly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 55 couples: the smallest p that 1,000 draws can have would be corrected to 0.0549."""
    monkeypatch.setattr("pellucid.evaluate.comparison.OF_CLASSIFIERS", ("accuracy",))  # the others only take time
    config, model, pairs = RunConfig(task="classification", data=TEXT, tokenizer=WORD), None, [("a b", "x")] * 66
    tokenizers: Any = train_tokenizers(WORD, [("a b", "x"), ("b", "y")], "classification")
    sides = []
    for right in range(0, 66, 6):
        hits = np.array([[float(row < right), 1.0] for row in range(66)])
        scores = {"accuracy": SentenceStatistics("accuracy", hits, mean_percentage)}
        sides.append(Evaluated(str(right), Run(Path(str(right)), config, tokenizers, model), ["x"] * 66, scores, 0.0))
    rows, _ = compare(sides, pairs, "accuracy", lambda text: None)
    chosen = [row for row in rows if row["score"] == "accuracy"]
    assert len(chosen) == 55
    assert min(row["p_holm"] for row in chosen) < 0.02


def test_readers_that_are_scored_by_two_definitions_are_not_compared() -> None:
    def reader(name: str, language: str) -> Evaluated:
        data = dataclasses.replace(TEXT, source_language=language)
        config = RunConfig(task="reading", data=data, tokenizer=WORD)
        model: Any = None
        run = Run(Path(name), config, train_tokenizers(WORD, PAIRS, "seq2seq"), model)
        hits = np.array([[1.0, 1.0], [0.0, 1.0], [1.0, 1.0]])
        scores = {score: SentenceStatistics(score, hits, mean_percentage) for score in ("em", "f1")}
        return Evaluated(name, run, RIGHT, scores, 0.0)

    for languages, scores in ((("zh", "en"), set()), (("zh", "CMN"), {"f1", "em"})):
        rows, details = compared(*(reader(name, language) for name, language in zip("ab", languages, strict=True)))
        assert {row["score"] for row in rows} == scores
        assert ("SQuAD" in " ".join(details[0]["notes"])) == (not scores)
        assert by_length_of(details[0]) == "f1 by length of the question"
