"""Lines in, lines out: as many, in order, whatever characters they hold; prefixes, samples, n-best, JSON."""

from __future__ import annotations

import gc
import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import lines
from pellucid.cli.remarks import tell_unknown

ODD = ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\t", "\0", "\ufeff", "日本",
       "😀", "e\u0301", "1", "2", "3", " "]
SOURCES = "1 2\n\n3 4 5\n   \n6\n"


def odd_lines(count: int) -> list[str]:
    chance = random.Random(5)
    return ["".join(chance.choices(ODD, k=chance.randrange(8))).removesuffix("\r") for _ in range(count)]


@pytest.mark.parametrize("by_file", [False, True])
def test_a_thousand_lines_of_odd_characters(cli: Any, run: Path, classifier: Path, tmp_path: Path,
                                            by_file: bool) -> None:
    lines = ["1", *odd_lines(1000)]
    text = "".join(f"{line}\n" for line in lines)
    (tmp_path / "in.txt").write_bytes(text.encode())
    for verb, folder in (("translate", run), ("classify", classifier)):
        words = ["--input", tmp_path / "in.txt", "--output", tmp_path / "out.txt"] if by_file else []
        done = cli(verb, folder, *words, stdin="" if by_file else text)
        assert done.code == 0, done.err
        out = (tmp_path / "out.txt").read_bytes() if by_file else done.out.encode()
        assert out.count(b"\n") == 1001
        assert b"\r" not in out
        for line, answer in zip(lines, out.decode().split("\n")[:-1], strict=True):
            assert line.strip() or answer == ""


def test_empty_lines_stay_empty_and_in_place(cli: Any, run: Path, classifier: Path) -> None:
    for words in (["translate", run, "--decode.min_length", 2], ["classify", classifier]):
        answers = cli(*words, stdin=SOURCES).out.split("\n")
        assert [bool(answer) for answer in answers] == [True, False, True, False, True, False]
        alone = [cli(*words, stdin=line).out for line in ("1 2", "3 4 5", "6\r\n")]
        assert alone == [answers[0] + "\n", answers[2] + "\n", answers[4] + "\n"]


def test_no_line_in_no_line_out(cli: Any, run: Path, classifier: Path) -> None:
    for verb, folder in (("generate", run), ("classify", classifier)):
        assert (cli(verb, folder).code, cli(verb, folder).out) == (0, "")


@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf"])
def test_an_empty_file_is_empty_standard_input(cli: Any, run: Path, classifier: Path, tmp_path: Path,
                                               content: bytes) -> None:
    empty, out = tmp_path / "empty", tmp_path / "out"
    empty.write_bytes(content)
    for words in (["generate", run, "--input", empty], ["classify", classifier, "--input", empty],
                  ["score", run, "--source", empty, "--target", empty],
                  ["generate", run, "--input", empty, "--prefix", empty]):
        out.write_text("older\n")
        done = cli(*words, "--output", out)
        assert (done.code, done.out, done.err, out.read_bytes()) == (0, "", "", b"")


def test_what_is_loaded_is_frozen_once_however_many_blocks_there_are(cli: Any, run: Path, tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").write_text("1 2\n" * 7)
    frozen = list[int]()
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(1))
    monkeypatch.setattr(lines, "LINES_AT_ONCE", 2)
    assert cli("translate", run, "--input", tmp_path / "in").out.count("\n") == 7
    assert len(frozen) == 1


def test_a_byte_order_mark_is_no_text(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf1 2\n")
    wanted = cli("translate", run, stdin="1 2\n").out
    assert cli("translate", run, "--input", tmp_path / "bom.txt").out == wanted
    assert cli("translate", run, stdin=b"\xef\xbb\xbf1 2\n").out == wanted


def test_generate_and_translate_are_one(cli: Any, run: Path) -> None:
    assert cli("generate", run, stdin=SOURCES).out == cli("translate", run, stdin=SOURCES).out


def test_a_packed_file_is_packed(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("1 2 3\n\n4 5\n")
    for name in ("plain", "one.gz", "other.gz"):
        assert cli("translate", run, "--input", tmp_path / "in", "--output", tmp_path / name).code == 0
    assert gzip.decompress((tmp_path / "one.gz").read_bytes()) == (tmp_path / "plain").read_bytes()
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "other.gz").read_bytes()


def test_n_best(cli: Any, run: Path) -> None:
    rows = [line.split("\t") for line in cli("generate", run, "--n-best", 3, stdin="1 2\n3\n").out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    for number in ("1", "2"):
        scores = [float(row[1]) for row in rows if row[0] == number]
        assert scores == sorted(scores, reverse=True)
    assert len({row[2] for row in rows[:3]}) == 3
    best = cli("generate", run, "--beam-size", 3, stdin="1 2\n3\n").out.splitlines()
    assert best == [rows[0][2], rows[3][2]]


def test_a_beam_is_as_wide_as_what_is_told_however_it_is_asked_for(cli: Any, run: Path, copy: Path) -> None:
    """By a flag, by both, by the key, by the run's own configuration; the run's beam is 2."""
    told = cli("generate", run, "--n-best", 4, stdin="1 2\n").out
    assert told.count("\n") == 4
    config = copy / "config.yaml"
    config.write_text(config.read_text().replace("n_best: 1", "n_best: 4"))
    for words in ([run, "--n-best", 4, "--beam-size", 1], [run, "--decode.n_best", 4], [copy]):
        assert cli("generate", *words, stdin="1 2\n").out == told


@pytest.mark.parametrize("words", [
    ["--beam-size", "0"], ["--beam-size", "-1"], ["--n-best", "0"],
    ["--decode.temperature", "0"], ["--decode.top_p", "1.5"], ["--decode.max_length", "0"], ["--decode.seed", "-1"],
    ["--decode.beem_size", "2"], ["--decode.min_length", "90", "--decode.max_length", "80"]])
def test_search_options_out_of_range(cli: Any, run: Path, words: list[str]) -> None:
    cli("generate", run, *words, stdin="1\n").says(2, words[0].removeprefix("--").split(".")[-1].replace("-", "_")[:4])


def test_samples_depend_on_the_seed_alone(cli: Any, run: Path) -> None:
    def sample(seed: int, *words: object) -> str:
        done = cli("generate", run, "--sample", "--decode.seed", seed, "--decode.temperature", 3, *words,
                   stdin="1 2 3\n" * 20)
        assert done.code == 0, done.err
        return str(done.out)

    assert sample(1) == sample(1) == sample(1, "--decode.batch_tokens", 8)
    assert sample(1) != sample(2)
    assert len(set(sample(1).splitlines())) > 1


def test_prefixes(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "p.txt").write_text("4 4\n\n5\n")
    words = ("generate", run, "--prefix", tmp_path / "p.txt")
    lines = cli(*words, stdin="1\n2\n3\n").out.splitlines()
    assert lines[0].startswith("4 4")
    assert lines[1] == cli("generate", run, stdin="2\n").out.strip()
    assert lines[2].startswith("5")
    cli(*words, stdin="1\n" * 5).says(3, "fewer prefixes", str(tmp_path / "p.txt"))
    cli(*words, stdin="1\n" * 2).says(3, "more prefixes than lines of input", str(tmp_path / "p.txt"))
    cli("generate", run, "--prefix", "1 2 ", stdin="1\n").says(3, "where: 1 2", "--prefix is the name of a file")


def test_generate_as_json(cli: Any, run: Path) -> None:
    lines = cli("generate", run, "--json", "--n-best", 2, stdin=SOURCES).out.split("\n")[:-1]
    objects = [json.loads(line) for line in lines]
    plain = cli("generate", run, "--beam-size", 2, stdin=SOURCES).out.split("\n")[:-1]
    assert [one["text"] for one in objects] == plain
    assert all(one.keys() == {"line", "source", "text", "score", "tokens", "hypotheses"} for one in objects)
    assert [(one["line"], one["source"]) for one in objects] == list(enumerate(SOURCES.split("\n")[:-1], start=1))
    assert [len(one["hypotheses"]) for one in objects] == [2, 1, 2, 1, 2]
    first = objects[0]["hypotheses"][0]
    assert (first["text"], first["score"], first["tokens"]) == tuple(objects[0][k] for k in ("text", "score", "tokens"))


def test_classify_as_json(cli: Any, classifier: Path) -> None:
    lines = cli("classify", classifier, "--json", stdin="aab1\n\nddc2\n").out.splitlines()
    objects = [json.loads(line) for line in lines]
    assert [(one["line"], one["text"]) for one in objects] == [(1, "aab1"), (2, ""), (3, "ddc2")]
    for one in objects:
        assert one.keys() == {"line", "text", "label", "probabilities"}
        assert one["probabilities"].keys() == {"ab", "dc"}
        assert sum(one["probabilities"].values()) == pytest.approx(1)
        assert one["label"] == max(one["probabilities"], key=one["probabilities"].get)
    label, probability = cli("classify", classifier, stdin="aab1\n").out.strip().split("\t")
    assert label == objects[0]["label"]
    assert float(probability) == pytest.approx(objects[0]["probabilities"][label], abs=1e-3)


def test_score(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("1 2\n\n3\n")
    (tmp_path / "t").write_text("1 2\n4\n\n")
    words = ("score", run, "--source", tmp_path / "s", "--target", tmp_path / "t")
    objects = [json.loads(line) for line in cli(*words, "--json").out.splitlines()]
    assert len(objects) == 3
    assert [len(one["token_log_probabilities"]) for one in objects] == [3, 2, 1]
    assert [(one["line"], one["source"], one["target"]) for one in objects] == [(1, "1 2", "1 2"), (2, "", "4"),
                                                                                (3, "3", "")]
    for one, line in zip(objects, cli(*words).out.splitlines(), strict=True):
        assert {"log_probability", "per_token", "tokens", "token_log_probabilities"} <= one.keys()
        assert one["log_probability"] == pytest.approx(sum(one["token_log_probabilities"]))
        assert one["log_probability"] < 0
        assert line == f"{one['log_probability']:.4f}\t{one['per_token']:.4f}"
    assert cli(*words, "--output", tmp_path / "out").out == ""
    assert (tmp_path / "out").read_text() == cli(*words).out


def test_score_reads_one_side_from_standard_input(cli: Any, run: Path, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("1 2\n\n3\n")
    (tmp_path / "t").write_text("1 2\n4\n5\n")
    wanted = cli("score", run, "--source", tmp_path / "s", "--target", tmp_path / "t", "--json").out
    assert wanted.count("\n") == 3
    for piped, name, other, file in (("--source", "s", "--target", "t"), ("--target", "t", "--source", "s")):
        done = cli("score", run, piped, "-", other, tmp_path / file, "--json", stdin=(tmp_path / name).read_text())
        assert (done.code, done.out) == (0, wanted)
    cli("score", run, "--source", "-", "--target", "-").says(2, "cannot both be standard input")
    words = ("score", run, "--source", "-", "--target", tmp_path / "t")
    cli(*words, stdin="1\n" * 4).says(3, "fewer targets than lines of input", str(tmp_path / "t"))
    cli(*words, stdin="1\n" * 2).says(3, "more targets than lines of input", "3 lines, and the input 2")


@pytest.mark.parametrize(("lines", "told"), [(2, "fewer"), (4, "more")])
def test_files_of_different_lengths_are_refused_before_anything_is_answered(cli: Any, run: Path, tmp_path: Path,
                                                                           lines: int, told: str) -> None:
    (tmp_path / "three").write_text("1\n2\n3\n")
    (tmp_path / "others").write_text("1\n" * lines)
    for words in (("score", run, "--source", tmp_path / "three", "--target"),
                  ("generate", run, "--input", tmp_path / "three", "--prefix")):
        done = cli(*words, tmp_path / "others")
        done.says(3, f"there are {told} ", "than lines of input", f"it has {lines} lines, and the input 3")
        assert done.out == ""


def test_what_is_generated_has_the_score_that_is_told(cli: Any, run: Path, tmp_path: Path) -> None:
    exactly = ("--decode.precision", "fp32")  # as it is scored
    one = json.loads(cli("generate", run, "--json", *exactly, stdin="1 2 3\n").out)["hypotheses"][0]
    (tmp_path / "s").write_text("1 2 3\n")
    (tmp_path / "t").write_text(one["text"] + "\n")
    scored = json.loads(cli("score", run, "--source", tmp_path / "s", "--target", tmp_path / "t", "--json").out)
    if len(scored["token_log_probabilities"]) <= 12:  # it ended by itself
        assert scored["log_probability"] == pytest.approx(one["log_probability"], abs=1e-3)


def test_a_line_that_is_cut_is_told_with_its_number_and_marked(cli: Any, run: Path, classifier: Path,
                                                               tmp_path: Path) -> None:
    text = "1 2\n" + "1 2 3 4 5 6 " * 20 + "\n3\n"
    for words in (["translate", run], ["classify", classifier]):
        done = cli(*words, stdin=text)
        assert done.code == 0
        assert done.out.count("\n") == 3
        assert "line 2 loses " in done.err
        assert "tokens that the model takes (model.max_length)" in done.err
        assert done.err.count("loses") == 1
    rows = [json.loads(line) for line in cli("generate", run, "--json", stdin=text).out.splitlines()]
    assert ["cut" in row for row in rows] == [False, True, False]
    assert rows[1]["cut"] > 0
    assert cli("translate", run, stdin="1 2\n").err == ""


def test_what_the_model_does_not_know_is_told_and_marked(cli: Any, run: Path, classifier: Path, tmp_path: Path) -> None:
    text = "1 2\n1 42 2 cat\n\n" + "7 42\n" * 6
    rows = [json.loads(line) for line in cli("generate", run, "--json", stdin=text).out.splitlines()]
    assert [row.get("unknown") for row in rows] == [None, ["42", "cat"], None, *[["42"]] * 6]
    done = cli("translate", run, stdin=text)
    said = done.err.splitlines()
    assert said[0] == "pellucid: in line 2 the model does not know 42, cat, and reads ⁇ instead"
    assert len(said) == 6
    assert said[5].startswith("pellucid: and 2 more ")
    (one,) = map(json.loads, cli("classify", classifier, "--json", stdin="abß\n").out.splitlines())
    assert one["unknown"] == ["ß"]
    (tmp_path / "t").write_text("1 dog\n")
    scored = cli("score", run, "--source", "-", "--target", tmp_path / "t", "--json", stdin="cat 1\n")
    assert (json.loads(scored.out)["unknown"], json.loads(scored.out)["unknown_target"]) == (["cat"], ["dog"])
    assert "in the target of line 1 the model does not know dog" in scored.err
    done = cli("generate", run, "--prefix", tmp_path / "t", stdin="1 2\n")
    assert done.out.startswith("1 dog")
    assert "in the prefix of line 1 the model does not know dog" in done.err


def test_of_many_unknown_parts_a_few_are_named_and_a_terminal_obeys_none(capsys: pytest.CaptureFixture[str]) -> None:
    tell_unknown("line 1", ["\x1b[2J", "x" * 41, "\x1b[2J", "\u202e", "y" * 40, *"abcd"])
    assert capsys.readouterr().err == (
        f"pellucid: in line 1 the model does not know '\\x1b[2J', '{'x' * 39}…', '\\u202e', {'y' * 40}, a and 3 more, "
        "and reads ⁇ instead\n")
    tell_unknown("line 1", [])
    assert capsys.readouterr().err == ""


def test_split_sentences_cuts_nothing(cli: Any, run: Path) -> None:
    text = "1 2\n" + "1 2 3 4 5 6 " * 20 + "\n\n3 4! 5\n"
    done = cli("translate", run, "--split-sentences", "--json", stdin=text)
    assert (done.code, "loses" in done.err) == (0, False)
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert len(rows) == 4
    assert not any("cut" in row for row in rows)
    assert len(rows[1]["text"].split()) >= 6
    halves = cli("translate", run, stdin="3 4!\n5\n").out.splitlines()
    assert rows[3]["text"] == " ".join(half for half in halves if half)
    cli("translate", run, "--split-sentences", "--n-best", 2, stdin="1\n").says(2, "decode.split_sentences")


def test_a_precision_that_is_not_available_is_told_with_its_reason(cli: Any, run: Path, tmp_path: Path) -> None:
    plain = shutil.copytree(run, tmp_path / "plain")
    config = (plain / "config.yaml").read_text(encoding="utf-8")
    (plain / "config.yaml").write_text(config.replace("kernels: auto", "kernels: plain"), encoding="utf-8")
    done = cli("translate", plain, "--decode.precision", "int8", stdin="1 2\n3\n")
    assert done.err.startswith("pellucid: decode.precision int8 is not used, but fp32: the kernels ")
    assert done.err.count("int8") == 1
    done = cli("translate", run, "--verbose", "--decode.precision", "fp32", stdin="1 2\n")
    assert done.err.startswith("pellucid: decoder: ")
    assert ", fp32" in done.err
