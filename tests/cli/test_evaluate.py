"""`evaluate`: the scores that the contract names, on any split or on files; several runs are compared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from pellucid.language import fitted
from pellucid.runs.decoder import WAYS

TRANSLATION = {"run", "split", "n", "bleu", "bleu_lowercase", "chrf", "ter", "meteor", "perplexity", "exact",
               "interval", "signature", "signatures", "case", "nats_per_character", "unknown_share",
               "stripped_share"}
CLASSIFICATION = {"run", "split", "n", "accuracy", "macro_f1", "interval", "signature", "signatures"}


def report(outcome: Any) -> dict[str, Any]:
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out, parse_constant=lambda name: 1 / 0)  # no NaN, no Infinity
    assert isinstance(found, dict)
    assert found.keys() == {"runs", "keys", "comparison", "differences"}
    return found


def test_a_translation_run(cli: Any, run: Path) -> None:
    found = report(cli("evaluate", run, "--json"))
    (scores,) = found["runs"]
    assert scores.keys() >= TRANSLATION
    assert (scores["run"], scores["split"], scores["n"]) == (str(run), "test", 24)
    assert found["comparison"] == found["differences"] == []
    search = scores["search"]
    assert search["n"] == 24 == search["exact"] + search["search_errors"] + search["model_errors"]
    assert search["share"] == search["search_errors"] / 24
    for name, (low, high) in scores["interval"].items():
        assert low <= scores[name] <= high, name
    assert {"bleu", "chrf", "ter", "meteor", "exact", "perplexity"} <= scores["interval"].keys()
    assert "version" in scores["signature"]
    assert scores["signatures"].keys() == scores["interval"].keys()
    assert scores["signature"] == scores["signatures"]["bleu"]


def test_a_score_that_takes_long_can_be_left_out(cli: Any, run: Path, copy: Path) -> None:
    (scores,) = report(cli("evaluate", copy, "--json", "--without", "ter"))["runs"]
    assert not {"ter", "ter_lowercase"} & (scores.keys() | scores["interval"].keys() | scores["signatures"].keys())
    assert scores["chrf"] == report(cli("evaluate", run, "--json"))["runs"][0]["chrf"]
    assert cli("evaluate", copy, "--without", "ter").code == 0
    for left_out, more in ((("ter",), ()), (("chrf",), ("--score", "bleu")), (("meteor",), ())):
        both = report(cli("evaluate", run, copy, "--json", "--without", *left_out, *more))
        assert not {name for row in both["comparison"] for name in left_out if row["score"].startswith(name)}
    assert "compared by" in cli("evaluate", run, copy, "--score", "ter", "--without", "ter").err


def test_a_score_is_left_out_of_a_single_run_whichever_it_would_be_compared_by(cli: Any, run: Path) -> None:
    (scores,) = report(cli("evaluate", run, "--json", "--without", "chrf", "--without", "ter"))["runs"]
    assert not {"ter", "chrf"} & scores.keys()


def test_examples_without_a_label_are_left_out_and_counted(cli: Any, classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("1 2\n3 3\n4 5\n")
    labels = json.loads((classifier / "tokenizer" / "tokenizer.json").read_text())["labels"]
    (tmp_path / "labels").write_text(f"{labels[0]}\n\n{labels[1]}\n")
    done = cli("evaluate", classifier, "--source", tmp_path / "texts", "--target", tmp_path / "labels", "--json")
    assert report(done)["runs"][0]["n"] == 2
    assert "1 of 3 examples have no label, and are not scored" in done.err


def test_a_classifier(cli: Any, classifier: Path) -> None:
    (scores,) = report(cli("evaluate", classifier, "--json"))["runs"]
    assert scores.keys() >= CLASSIFICATION
    assert scores["interval"].keys() == {"accuracy", "macro_f1"}
    assert scores["n"] == 30
    text = cli("evaluate", classifier).out
    assert "accuracy" in text
    assert "predicted" in text
    place = next(line for line in text.splitlines() if line.endswith("95 % interval")).index("95 %")
    low = next(line for line in text.splitlines() if "accuracy" in line)[place:].split()[0]
    assert float(low) == pytest.approx(scores["interval"]["accuracy"][0], abs=0.006)  # which stands below


def test_text_says_the_same(cli: Any, run: Path) -> None:
    text = cli("evaluate", run).out
    (scores,) = report(cli("evaluate", run, "--json"))["runs"]
    assert f"{scores['bleu']:.2f}" in text
    assert all(signature in text for name, signature in scores["signatures"].items() if "lowercase" not in name)
    assert "cased" in text
    assert str(run) in text


def test_the_route_is_named(cli: Any, run: Path) -> None:
    (scores,) = report(cli("evaluate", run, "--json"))["runs"]
    assert scores["route"].keys() == {"decoder", "precision", "against"}
    assert scores["route"]["decoder"] in WAYS
    assert scores["route"]["precision"] in ("fp32", "bf16")
    assert all(name in WAYS and reason for name, reason in scores["route"]["against"].items())


def test_a_run_that_is_not_finished_is_told(cli: Any, run: Path, copy: Path) -> None:
    (copy / "ended.json").unlink()
    (copy / "README.md").unlink()
    done = cli("evaluate", copy, "--json")
    assert "is not finished (interrupted): the scores are of its best weights so far" in done.err
    assert report(done)["runs"][0]["state"] == "interrupted"
    done = cli("evaluate", run, "--json")
    assert "not finished" not in done.err
    assert report(done)["runs"][0]["state"] == "finished"


def test_other_splits(cli: Any, run: Path) -> None:
    for split, count in (("validation", 24), ("train", 300)):
        (scores,) = report(cli("evaluate", run, "--split", split, "--json"))["runs"]
        assert (scores["split"], scores["n"]) == (split, count)
    cli("evaluate", run, "--split", "tset").says(2, "tset", "train", "validation", "test")


def test_files(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("1 2\n3\n\n")
    (tmp_path / "t").write_text("1 2\n3\n\n")
    (scores,) = report(cli("evaluate", run, "--source", tmp_path / "s", "--target", tmp_path / "t", "--json"))["runs"]
    assert scores["n"] == 3


def test_two_runs_are_compared(cli: Any, run: Path, copy: Path) -> None:
    found = report(cli("evaluate", run, copy, "--json"))
    assert [scores["run"] for scores in found["runs"]] == [str(run), str(copy)]
    assert [one["score"] for one in found["comparison"]] == ["exact", "bleu", "chrf", "ter", "meteor", "perplexity"]
    for one in found["comparison"]:
        assert one.keys() == {"score", "a", "b", "difference", "interval", "p", "p_randomisation", "p_holm"}
        assert (one["a"], one["b"], one["difference"], one["p"]) == (str(run), str(copy), 0, 1)
        low, high = one["interval"]  # other sentences could tell the runs apart, if not their likelihoods
        assert low == -high
        assert (high == 0) == (one["score"] == "perplexity")
        assert one["p_randomisation"] == 1
        assert one["p_holm"] == (1 if one["score"] == "exact" else None)  # the others are exploratory
    (detail,) = found["differences"]
    assert (detail["a"], detail["b"], detail["sentences"], detail["notes"]) == (str(run), str(copy), [], [])
    assert detail["frequency_in"] == "the training data"
    assert sum(group["n"] for group in detail["by_length"]) == 24
    for group in detail["by_length"] + detail["by_frequency"]:
        assert group["difference"] == 0
        assert -100 < group["interval"][0] == -group["interval"][1] < 0
    text = cli("evaluate", run, copy).out
    assert all(part in text for part in ("1.0000", "exact by length", "F1 of words", "search errors", "exploratory"))


def test_the_score_to_test_by_can_be_chosen(cli: Any, run: Path, copy: Path, classifier: Path) -> None:
    found = report(cli("evaluate", run, copy, "--score", "chrf_lowercase", "--json"))
    first = found["comparison"][0]
    assert (first["score"], first["p_holm"]) == ("chrf_lowercase", 1)
    assert found["differences"][0]["score"] == "chrf_lowercase"
    cli("evaluate", run, copy, "--score", "chfr").says(2, "chfr", "did you mean chrf")
    cli("evaluate", classifier, "--score", "bleu").says(2, "bleu", "accuracy", "macro_f1")


def test_runs_that_differ_are_told_where(cli: Any, run: Path, copy: Path) -> None:
    """A copy whose search is made to stop early: its outputs are shorter, and the fault is the search's."""
    config = yaml.safe_load((copy / "config.yaml").read_text())
    config["decode"]["max_length"] = 2
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    found = report(cli("evaluate", run, copy, "--json"))
    (detail,) = found["differences"]
    assert 0 < len(detail["sentences"]) <= 20
    gaps = [abs(one["a"] - one["b"]) for one in detail["sentences"]]
    assert gaps == sorted(gaps, reverse=True)
    assert all(len(one["output_b"].split()) <= 2 for one in detail["sentences"])
    page = (run / "evaluation" / "test-comparison.md").read_text()
    assert page.startswith("# Runs compared on test, 24 examples")
    assert all(one["reference"] in page for one in detail["sentences"])
    shown = cli("evaluate", run, copy).out
    assert "differ most" in shown
    assert max(map(len, shown[shown.index("a = "):].splitlines()[3:])) <= 80


def test_one_example_is_one_and_has_no_bounds(cli: Any, run: Path, copy: Path, tmp_path: Path) -> None:
    files = [f"--{side}={tmp_path / side}" for side in ("source", "target")]
    for side in ("source", "target"):
        (tmp_path / side).write_text("1\n")
    config = yaml.safe_load((copy / "config.yaml").read_text())
    config["model"]["norm_epsilon"] = 0.1  # another likelihood
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    shown = cli("evaluate", run, copy, *files).out
    page = (run / "evaluation" / "files-comparison.md").read_text()
    assert page.startswith("# Runs compared on files, 1 example\n")
    assert shown.startswith(f"{run}  files, 1 example\n")
    for text in (shown, page):
        assert "1 word " in text
        assert "-∞ to +∞" in text
        assert "inf" not in text
    assert "1 output (0.0 %) is less probable" in shown


def test_examples_that_were_cut_are_counted(cli: Any, run: Path, copy: Path, classifier: Path, tmp_path: Path) -> None:
    """The model takes 24 tokens, the end among them."""
    files = [f"--{side}={tmp_path / side}" for side in ("source", "target")]
    lines = ["1 " * 24, "1 " * 23, "1 " * 23]
    (tmp_path / "source").write_text("\n".join(lines) + "\n")
    (tmp_path / "target").write_text("\n".join(lines[::-1]) + "\n")
    done = cli("evaluate", run, *files)
    assert "cut             1 of 3 examples longer than model.max_length" in done.out
    assert report(cli("evaluate", run, *files, "--json"))["runs"][0]["cut"] == 1
    assert report(cli("evaluate", run, "--json"))["runs"][0]["cut"] == 0
    label = report(cli("evaluate", classifier, "--json"))["runs"][0]["labels"][0]
    (tmp_path / "target").write_text(f"{label}\n" * 3)
    assert report(cli("evaluate", classifier, *files, "--json"))["runs"][0]["cut"] > 0


def test_classifiers_are_compared_by_accuracy(cli: Any, classifier: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(classifier, tmp_path / "other"))
    (detail,) = report(cli("evaluate", classifier, other, "--json"))["differences"]
    assert detail["score"] == "accuracy"
    assert "by_frequency" not in detail
    assert "accuracy by length" in cli("evaluate", classifier, other).out


def test_runs_of_different_tasks_or_on_different_data_are_not_compared(
        cli: Any, run: Path, copy: Path, classifier: Path) -> None:
    cli("evaluate", run, classifier).says(2, "different tasks")
    cli("evaluate", run, copy, f"{run}/.").says(2, "a run is given twice")
    (copy / "other.tsv").write_text("1 2\t1 2\n")
    config = yaml.safe_load((copy / "config.yaml").read_text())
    config["data"]["test"] = str(copy / "other.tsv")
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    cli("evaluate", run, copy).says(3, "the test data changed", "--source")
    (copy / "data.json").unlink()  # which knows what they were
    cli("evaluate", run, copy).says(2, "different data", "--source")


def test_what_was_scored_is_kept(cli: Any, copy: Path) -> None:
    (scores,) = report(cli("evaluate", copy, "--json"))["runs"]
    assert json.loads((copy / "evaluation" / "test.json").read_text()) == scores
    hypotheses = (copy / "evaluation" / "test.hyp").read_text().split("\n")[:-1]
    sources = [line.split("\t")[0] for line in (copy / "data" / "test.tsv").read_text().splitlines()]
    assert hypotheses == cli("translate", copy, stdin="".join(f"{line}\n" for line in sources)).out.split("\n")[:-1]


def test_a_run_without_a_test_split(cli: Any, data: Path, train_on: Any) -> None:
    done = train_on("--data.train", data / "pairs.tsv", "--data.validation_share", "0.2")
    assert done.code == 0, done.err
    cli("evaluate", data / "out").says(2, "no test data", "--split train or validation", "--source")


def test_a_run_that_was_trained_elsewhere_has_no_data(cli: Any, copy: Path) -> None:
    config = yaml.safe_load((copy / "config.yaml").read_text())
    config["data"]["generated"] = None
    (copy / "config.yaml").write_text(yaml.safe_dump(config))
    cli("evaluate", copy).says(2, "no data of its own", "give --source and --target")


def test_punctuation_that_a_run_cannot_write_is_told(cli: Any, data: Path, train_on: Any) -> None:
    marked = data / "marked.tsv"
    marked.write_text("1 2 3\t1 2 3 !\n2 3 4\t2 3 4 .\n")
    done = train_on("--data.train", data / "pairs.tsv", "--data.validation_share", "0.2", "--data.test", marked,
                    "--tokenizer.strip_punctuation", "true")
    assert done.code == 0, done.err
    (scores,) = report(cli("evaluate", data / "out", "--json"))["runs"]
    assert scores["stripped_share"] == 2 / 14
    shown = " ".join(cli("evaluate", data / "out").out.split())
    assert "14.29 % of the references' characters, which this run cannot write" in shown


def test_outputs_and_references_may_end_where_learned_positions_do(cli: Any, data: Path, train_on: Any) -> None:
    longer = data / "longer.tsv"
    longer.write_text("1 2 3\t" + "1 2 3 " * 8 + "\n2 3 4\t2\n")
    done = train_on("--data.train", data / "pairs.tsv", "--data.validation_share", "0.2", "--data.test", longer,
                    "--model.position", "learned", "--model.max_length", 12, "--decode.max_length", 12)
    assert done.code == 0, done.err
    (scores,) = report(cli("evaluate", data / "out", "--json"))["runs"]  # after two steps nothing ends by itself
    assert scores["n"] == 2
    assert scores["perplexity"] > 1
    cli("score", data / "out", "--source", longer, "--target", longer).says(3, "learned positions end", "12", "line 1")


def changed(copy: Path, name: str, section: str, key: str, value: Any) -> Path:
    """One more copy of the run, with one key of its configuration changed."""
    other = Path(shutil.copytree(copy, copy.parent / name))
    config = yaml.safe_load((other / "config.yaml").read_text())
    config[section][key] = value
    (other / "config.yaml").write_text(yaml.safe_dump(config))
    return other


def test_three_runs_are_one_table_that_fits_a_narrow_terminal(cli: Any, run: Path, copy: Path) -> None:
    short = changed(copy, "short", "decode", "max_length", 2)
    greedy = changed(copy, "greedy", "decode", "beam_size", 1)
    shown = cli("evaluate", run, short, greedy).out
    lines = shown.splitlines()
    first = next(i for i, line in enumerate(lines) if "95 % interval" in line)
    assert lines[first].split()[0] == "exact"  # the chosen score first, with its interval
    assert {"bleu", "chrf", "ter", "meteor", "perplexity"} <= set(lines[first].split())
    assert [line.split()[0] for line in lines[first + 1: first + 4]] == ["a", "b", "c"]
    assert max(map(len, lines[first:])) <= 80
    assert all(f"  {pair} " in shown for pair in ("a - b", "a - c", "b - c"))
    assert "decode.max_length  a, c: 12; b: 2" in shown
    assert "decode.beam_size  a, b: 2; c: 1" in shown
    assert shown.count("p boot") == 1
    assert len(lines) < 40


@pytest.mark.parametrize("width", [40, 60, 80])
def test_every_table_fits_the_terminal(cli: Any, run: Path, copy: Path, classifier: Path, width: int,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the lines that have to be quoted as they are: places, and signatures."""
    monkeypatch.setenv("COLUMNS", str(width))
    short = changed(copy, "short", "decode", "max_length", 2)
    for runs in ((run,), (run, short), (run, short, copy), (classifier,)):
        text = cli("evaluate", *runs).out
        lines = [line for line in text.splitlines() if "|" not in line and not any(str(one) in line for one in runs)]
        assert max(map(len, lines)) <= width
        scores = json.loads((runs[0] / "evaluation" / "test.json").read_text())
        assert all(f"{scores[name]:.2f}" in text for name in ("exact", "accuracy") if name in scores)


def test_a_row_that_is_too_wide_is_told_below_its_name() -> None:
    table, records = ["   a   b", "x  1  22"], [("x", ["a 1", "b 22", "c 333"]), ("y", [])]
    assert list(fitted(table, records, 8)) == table
    assert list(fitted(table, records, 7)) == ["  x", "      a 1", "      b 22", "      c 333", "  y"]
    assert list(fitted([*table, "中" * 9], records, 17)) == ["  x", "      a 1  b 22", "      c 333", "  y"]


def test_the_columns_and_the_keys_that_differ_are_explained(cli: Any, run: Path, copy: Path) -> None:
    text = " ".join(cli("evaluate", run, copy).out.split())
    assert "The runs have the same configuration." in text
    for column in ("a - b: the difference", "boot: paired bootstrap", "random: approximate randomisation", "p Holm:",
                   "exploratory:"):
        assert column in text
    other = changed(copy, "other", "decode", "length_penalty", 0.0)
    found = report(cli("evaluate", run, other, "--json"))
    assert found["keys"] == [{"key": "decode.length_penalty", "values": [0.6, 0.0]}]
    assert "decode.length_penalty  a: 0.6; b: 0.0" in cli("evaluate", run, other).out
    assert "| decode.length\\_penalty | 0.6 | 0.0 |" in (
        run / "evaluation/test-comparison.md").read_text().replace("decode.length_penalty", "decode.length\\_penalty")
