"""Verbs, flags, help; streams that are closed. Every refusal is one screen with the right exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import VERBS

PELLUCID = [sys.executable, "-m", "pellucid"]


def shell(line: str, **arguments: Any) -> subprocess.CompletedProcess[str]:
    """A shell line in which "pellucid" is this package."""
    command = line.replace("pellucid", " ".join(PELLUCID))
    return subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=300,
                          check=False, **arguments)


def clean(done: subprocess.CompletedProcess[str]) -> None:
    for sign in ("Traceback", "Exception ignored", "this is a bug", "Fatal"):
        assert sign not in done.stderr, done.stderr


@pytest.mark.parametrize("words", [[], ["--help"], ["-h"], ["help"]])
def test_no_verb_is_help(cli: Any, words: list[str]) -> None:
    shown = cli(*words)
    assert (shown.code, shown.err) == (0, "")
    for verb in VERBS:
        assert f"\n  {verb} " in shown.out


@pytest.mark.parametrize("verb", [*VERBS, "tokenizer train", "tokenizer show", "runs clean"])
def test_every_verb_has_help(cli: Any, verb: str) -> None:
    shown = cli(*verb.split(), "--help")
    assert shown.code == 0
    assert f"pellucid {verb}" in shown.out
    assert "{None}" not in shown.out
    assert " STR" not in shown.out
    assert "Traceback" not in shown.err


def test_version(cli: Any) -> None:
    assert cli("--version").out.strip() == __import__("pellucid").__version__


def test_help_imports_no_torch() -> None:
    program = ("import sys; from pellucid.cli import main; code = main(['--help']); "
               "heavy = {'torch', 'numpy', 'matplotlib', 'sentencepiece'} & set(sys.modules); "
               "print(heavy, file=sys.stderr) if heavy else None; sys.exit(code or bool(heavy))")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage: pellucid VERB" in done.stdout


@pytest.mark.parametrize(("verb", "meant"), [("trian", "train"), ("tranlate", "translate"), ("evalute", "evaluate"),
                                             ("recipe", "recipes"), ("tokeniser", "tokenizer"),
                                             ("clasify", "classify")])
def test_an_unknown_verb_names_the_nearest(cli: Any, verb: str, meant: str) -> None:
    cli(verb, "x").says(2, repr(verb), f"did you mean {meant}?")


def test_parts_of_ones_own_may_be_named_before_the_verb(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("print('imported')")
    for words in (["--import", tmp_path / "own.py"], [f"--import={tmp_path / 'own.py'}"]):
        shown = cli(*words, "recipes", "--json")
        assert shown.code == 0
        assert shown.out.startswith("imported\n[")
    cli("--import").says(2, "there is no verb")


@pytest.mark.parametrize("words", [["translate"], ["score", "--source", "-", "--target", "{}"]])
def test_the_wrong_verb_is_told_though_nothing_was_asked(cli: Any, classifier: Path, run: Path, tmp_path: Path,
                                                         words: list[str]) -> None:
    (tmp_path / "empty").touch()
    cli(words[0], classifier, *(word.format(tmp_path / "empty") for word in words[1:])).says(2, "classify")
    cli("classify", run).says(2, "translate")


@pytest.mark.parametrize(("words", "says"), [
    (["evaluate", "{}", "--k", "3"], "--k changes nothing"),
    (["runs", "clean", "{}", "--cache"], "cache is that of all"),
    (["evaluate", "{}", "--split", "train", "--source", "a", "--target", "b"], "--split changes nothing"),
    (["ablate", "components", "--dry-run", "--seed", "4"], "--seed changes nothing"),
    (["ablate", "attention-kinds", "--dry-run", "--model.attention", "full"], "varies it"),
    (["train", "copy", "--dry-run", "--train.track", "nosuch"], "there is no tracker")])
def test_what_changes_nothing_is_refused(cli: Any, run: Path, words: list[str], says: str) -> None:
    cli(*(word.format(run) for word in words)).says(2, says)


def test_an_unknown_verb_far_from_all_lists_them(cli: Any) -> None:
    cli("xyzzy").says(2, "the verbs are", *VERBS)


@pytest.mark.parametrize("words", [
    ["recipes", "--out", "x"], ["train", "copy", "--beam-size", "3"], ["train", "copy", "--input", "f"],
    ["train", "copy", "more"], ["classify", "r", "--n-best", "3"], ["classify", "r", "--decode.seed", "3"],
    ["score", "r", "--source", "a", "--target", "b", "--beam-size", "2"], ["evaluate", "r", "--out", "x"],
    ["evaluate", "r", "--train.steps", "3"], ["translate", "r", "--dry-run"], ["tokenizer", "show", "r", "--out", "x"],
    ["train"], ["translate"], ["classify"], ["score", "r"], ["tokenizer", "train", "copy"], ["tokenizer", "show"],
    ["translate", "r", "--beam-size", "many"], ["translate", "r", "--beam-size"]])
def test_flags_that_a_verb_does_not_use_and_arguments_that_it_lacks_are_refused(cli: Any, words: list[str]) -> None:
    cli(*words).says(2)


def test_a_misspelt_flag_names_the_nearest(cli: Any) -> None:
    cli("translate", "r", "--beam-sise", "3").says(2, "--beam-size")


@pytest.mark.parametrize("words", [["evaluate"], ["tokenizer"], ["tokenizer", "trian"],
                                   ["evaluate", "r", "--source", "f"], ["evaluate", "r", "--target", "f"],
                                   ["translate", "r", "--train.steps", "3"], ["translate", "r", "--seed", "3"],
                                   ["train", "copy", "--train.steps"]])
def test_words_that_do_not_go_together_are_refused(cli: Any, words: list[str]) -> None:
    cli(*words).says(2, "where:")


@pytest.mark.parametrize(("words", "meant"), [
    ("--sample --seed 3", ["--seed", "--decode.seed"]), ("--seed=3", ["no flag --seed here", "--decode.seed"]),
    ("--temperature 2", ["--temperature", "--decode.temperature"]), ("--max-length 2", ["--decode.max_length"]),
    ("--top_k=2", ["--top_k", "--decode.top_k"]), ("--train.steps 3", ["--train.steps", "only --decode keys"]),
    ("--task seq2seq", ["--task cannot"])])
def test_a_flag_that_is_a_key_names_itself_and_the_key(cli: Any, words: str, meant: list[str]) -> None:
    cli("translate", "r", *words.split()).says(2, *meant, "where:")


def test_recipes_as_json(cli: Any) -> None:
    recipes = json.loads(cli("recipes", "--json").out)
    assert {"copy", "demo"} <= {recipe["name"] for recipe in recipes}
    assert all({"name", "cost"} <= recipe.keys() for recipe in recipes)
    text = cli("recipes").out
    assert all(recipe["name"] in text and recipe["cost"] in text for recipe in recipes)


def test_an_unknown_recipe_names_the_nearest_and_all(cli: Any, tmp_path: Path) -> None:
    cli("train", "copi", "--out", tmp_path / "r").says(2, "did you mean copy?", "demo", "reverse")
    cli("train", tmp_path / "none.yaml", "--out", tmp_path / "r").says(2, str(tmp_path / "none.yaml"))
    assert not (tmp_path / "r").exists()


def test_debug_shows_the_traceback(cli: Any) -> None:
    with pytest.raises(ValueError, match="no such recipe"):
        cli("train", "copi", "--debug")


def test_standard_input_closed_before_it_begins(run: Path) -> None:
    done = shell(f"pellucid translate {run} <&-")
    clean(done)
    assert (done.returncode, done.stdout) == (74, "")
    assert "standard input is closed" in done.stderr


def test_standard_input_that_ends_in_the_middle_of_a_line(run: Path) -> None:
    done = shell(f"printf '1 2\\n3 4' | pellucid translate {run}")
    clean(done)
    assert (done.returncode, done.stdout.count("\n")) == (0, 2)


def test_standard_output_closed_by_its_reader(run: Path) -> None:
    done = shell(f"yes '1 2' | head -6000 | pellucid translate {run} | head -1")
    clean(done)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    assert done.returncode in (0, 74)


@pytest.mark.parametrize("line", ["pellucid recipes >&-", "pellucid --help >&-"])
def test_standard_output_closed_before_it_begins(line: str) -> None:
    done = shell(line)
    clean(done)
    assert done.returncode == 74
    assert "standard output is closed" in done.stderr


def test_standard_error_closed() -> None:
    done = shell("pellucid recpes 2>&-")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_standard_output_on_a_full_disk() -> None:
    done = shell("pellucid recipes > /dev/full")
    clean(done)
    assert done.returncode == 74
    assert "No space left" in done.stderr


@pytest.mark.parametrize(("given", "spins"), [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"),
                                              ({"OMP_WAIT_POLICY": "active"}, "30000000000")])
def test_threads_that_wait_leave_the_processor_soon(tmp_path: Path, given: dict[str, str], spins: str) -> None:
    run, text = Path(__file__).parents[1] / "runs" / "kept" / "0.1.0" / "run", tmp_path / "text"
    text.write_text("the cat\n")
    own = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = shell(f"pellucid score {run} --source {text} --target {text}",
                 env=own | given | {"OMP_DISPLAY_ENV": "verbose"})
    assert f"GOMP_SPINCOUNT = '{spins}'" in done.stderr  # as libgomp says where it begins
    assert done.returncode == 0
