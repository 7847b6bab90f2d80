"""Help: of every verb and flag, in English and in Chinese, without values that say nothing."""

from __future__ import annotations

import dataclasses
import importlib
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pellucid.cli import _FLAGS, _MODULES, _STEPS, VERBS
from pellucid.cli.chinese import sentences
from pellucid.cli.fields import Positional, arguments_of
from pellucid.cli.help import SHOW, help_of, paragraphs_of, said_of, wrapped
from pellucid.language import columns

MODULES = {f"pellucid.cli.{_MODULES.get(verb, verb)}" for verb in VERBS if verb != "translate"}
KINDS = {kind.__name__: kind for module in sorted(MODULES) for kind in vars(importlib.import_module(module)).values()
         if dataclasses.is_dataclass(kind) and kind.__module__ == module}
FRAME = ["a Transformer you can see through", "usage: {}", "VERB [arguments]", "pellucid VERB --help says more",
         "First steps:", "[options]", SHOW, "; {} if left out", *_FLAGS.values(), *filter(None, _STEPS.values())]
ALL = {*FRAME, *VERBS.values(), *(text for kind in KINDS.values() for text in paragraphs_of(kind)),
       *(text for kind in KINDS.values() for text in said_of(kind).values())}
SPELT = {"ten seconds": "十秒", "two minutes": "两分钟", "an hour": "一小时", "two tests": "两种检验", "three of": "三",
         "two runs": "两次运行"}  # numbers that are words in both
COMMANDS = [*VERBS, "demo answers", "runs clean", "tokenizer train", "tokenizer show"]


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_LANG", "zh")


def test_every_sentence_is_there_in_chinese_and_none_is_left_over() -> None:
    assert sentences().keys() == ALL


def marks(text: str) -> Counter[str]:
    """Its numbers, flags, placeholders, names in code, and commands."""
    return Counter(re.findall(r"\d+(?:[.,]\d+)*|--[\w.-]+\w|\{\}|`[^`]+`|\b[A-Z]{2,}(?:/[A-Z]+)?\b|\w+_\w+|runs/\w+",
                              text))


@pytest.mark.parametrize("text", sorted(ALL))
def test_chinese_has_the_same_numbers_flags_and_names(text: str) -> None:
    there = sentences()[text]
    assert marks(there) == marks(text)
    assert re.search("[\u4e00-\u9fff]", there)
    assert re.findall(r"[\u4e00-\u9fff][,;:?!]|[\u4e00-\u9fff] [\u4e00-\u9fff]", there) == []
    for english, spelt in SPELT.items():
        assert english not in text or spelt in there


@pytest.mark.parametrize("command", COMMANDS)
def test_help_in_chinese_has_the_same_flags(cli: Any, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    english = cli(*command.split(), "--help")
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    there = cli(*command.split(), "-h")
    assert (english.code, there.code, there.err) == (0, 0, "")
    first = re.compile(r"^  (\S.*?)(?:  |$)", re.MULTILINE)
    assert first.findall(there.out) == first.findall(english.out)
    assert "用法：pellucid" in there.out
    assert all(columns(line) <= 80 for shown in (english, there) for line in shown.out.splitlines())


def test_the_locale_asks_for_chinese(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PELLUCID_LANG")
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    assert "usage:" in cli("train", "--help").out
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "用法：" in cli("train", "--help").out
    shown = cli("--help").out
    assert sentences()[VERBS["train"]] in shown
    assert all(f"\n  {verb} " in shown for verb in VERBS)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_flag_says_what_it_does(kind: Any) -> None:
    assert all(len(text) > 5 for text in said_of(kind).values())
    assert said_of(kind).keys() == {field.name for field in dataclasses.fields(kind)}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_value_is_told_that_says_nothing(cli: Any, command: str) -> None:
    shown = cli(*command.split(), "--help").out
    assert not re.search(r"None|False|default|\(\)|~", shown)


def test_what_is_left_out_is_told_where_it_says_something(cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "the run folder; runs/demo if left out" in cli("demo", "--help").out
    assert re.search(r"than there are\s+cores; 1 if left out", cli("ablate", "--help").out)
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    assert "；省略时为 runs/demo" in cli("demo", "--help").out



def test_the_usage_names_what_must_be_given(cli: Any) -> None:
    for usage in ("score RUN --source PATH --target PATH [options]", "evaluate RUN … [options]", "recipes [options]",
                  "runs [FOLDER] [options]", "diff A B [options]"):
        assert cli(usage.split()[0], "--help").out.startswith(f"usage: pellucid {usage}\n")


def test_an_argument_that_is_missing_is_named_as_help_names_it(cli: Any, chinese: None) -> None:
    missing = cli("train").err
    assert "CONFIG" in missing
    assert "运行目录" in missing
    assert "default" not in cli("translate", "r", "--beam-sise", "3").err


@dataclasses.dataclass
class Sample:
    """Takes a sample, as its name
    says.

    And one more paragraph.
    """

    run: Positional[Path]
    """a run folder"""
    count: int = 0
    """how many of them are taken"""
    just_twenty_wide: int | None = None
    """as wide as a name may be"""
    a_name_that_is_long: float = 0.5
    """told below its name"""


@dataclasses.dataclass
class Bare:
    """Takes no options."""

    run: Positional[Path]
    """a run folder"""


def test_how_help_is_laid_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert help_of(Sample, "pellucid sample") == """\
usage: pellucid sample RUN [options]

Takes a sample, as its name says.

And one more paragraph.

  RUN                   a run folder
  --count N             how many of them are
                        taken; 0 if left out
  --just-twenty-wide N  as wide as a name may be
  --a-name-that-is-long X
                        told below its name; 0.5
                        if left out
  -h, --help            show this and exit
"""
    assert help_of(Bare, "pellucid bare") == """\
usage: pellucid bare RUN

Takes no options.

  RUN         a run folder
  -h, --help  show this and exit
"""


def test_lines_end_where_they_may() -> None:
    assert wrapped("understanding is all", 6) == ["understanding", "is all"]
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("春眠不觉晓，处处闻啼鸟。", 10) == ["春眠不觉", "晓，处处闻", "啼鸟。"]
    assert wrapped("用（甲）乙 `a b` 丙", 5) == ["用", "（甲）", "乙 `a", "b` 丙"]
    assert wrapped("", 5) == [""]


def processor_seconds() -> float:
    """Of the processes that have ended so far."""
    used = os.times()
    return used.children_user + used.children_system


def test_every_flag_is_on_a_page() -> None:
    root = Path(__file__).resolve().parents[2]
    text = "".join(path.read_text(encoding="utf-8") for path in [root / "README.md", *(root / "docs").glob("*.md")])
    flags = {one.called for kind in KINDS.values() for one in arguments_of(kind) if not one.is_place}
    assert [flag for flag in sorted(flags) if not re.search(rf"{flag}(?![\w-])", text)] == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_help_is_light_and_fast(language: str) -> None:
    """Within 0.4 s of a processor, the best of three, whatever else it does, and without torch."""
    program = ("import sys; from pellucid.cli import main; code = main(['--help']); "
               "sys.exit(code or bool({'torch', 'numpy', 'argparse', 'yaml'} & set(sys.modules)))")
    times = []
    for _ in range(3):
        begun = processor_seconds()
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                              env={"PELLUCID_LANG": language, "PYTHONPATH": ":".join(filter(None, sys.path)),
                                   "PYTHONUTF8": "1"})
        times.append(processor_seconds() - begun)
        assert done.returncode == 0, done.stderr
        assert sentences()[VERBS["train"]] in done.stdout or language == "en"
    assert min(times) < 0.4
