"""What an inspection says in English it says in Chinese, too: every sentence, with the same values and numbers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from string import Formatter

import pytest

from pellucid.inspection.chinese import CHINESE, PARTS, named, told
from pellucid.inspection.sections import KINDS
from pellucid.inspection.style import drawn, drawn_name
from pellucid.inspection.weights import KINDS as KINDS_OF_MATRICES

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pellucid"
BY_NAME = {*KINDS.values(), *KINDS_OF_MATRICES, "train", "validation", "test", "nats per text",
           "nats per target token", "accuracy", "exact"}  # sentences that a variable holds


def said() -> set[str]:
    """Every sentence that stands in a `told(...)` or a `drawn(...)`."""
    files = [*(SOURCE / "inspection").glob("*.py"), SOURCE / "cli" / "inspect.py"]
    calls = [node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("told", "drawn")]
    choices = [[call.args[0].body, call.args[0].orelse] if isinstance(call.args[0], ast.IfExp) else call.args[:1]
               for call in calls]
    return {node.value for some in choices for node in some if isinstance(node, ast.Constant)}


def test_every_sentence_has_its_chinese_and_no_chinese_is_left_over() -> None:
    assert said() | BY_NAME == set(CHINESE)


def fields(sentence: str) -> Counter[tuple[str | None, str | None]]:
    return Counter((name, spec) for _, name, spec, _ in Formatter().parse(sentence) if name is not None)


def numbers(sentence: str) -> Counter[str]:
    return Counter(re.findall(r"\d+(?:\.\d+)?", re.sub(r"\{.*?\}", "", sentence)))


@pytest.mark.parametrize("english", CHINESE)
def test_both_say_the_same_numbers(english: str) -> None:
    chinese = CHINESE[english]
    assert fields(chinese) == fields(english)
    assert numbers(chinese) - numbers(english) <= Counter(["1"])  # "all on one token", "a batch of 1"
    assert numbers(english) <= numbers(chinese)
    assert re.findall(r"[\u4e00-\u9fff][,;:?!]", chinese) == []
    assert chinese.endswith("。") == english.endswith(".") or english.endswith("{name}.")


def test_the_language_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (told("Heads"), named("encoder layer 2"), drawn("Heads")) == ("Heads", "encoder layer 2", "Heads")
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    assert (told("Heads"), named("encoder layer 2")) == ("头", "编码器第 2 层")
    assert told("what nobody has translated") == "what nobody has translated"


@pytest.mark.parametrize(("name", "expected"), [
    ("decoder layer 1, cross-attention", "解码器第 1 层，交叉注意力"), ("encoder closing norm", "编码器末端归一化"),
    ("source embedding = target embedding = output projection", "源嵌入 = 目标嵌入 = 输出投影"),
    ("classification layer 2", "分类层 2"), ("encoder layer 1, self-attention function", "编码器第 1 层，自注意力函数"),
    ("decoder layer 3, norms", "解码器第 3 层，归一化"), ("gain of my own", "gain of my own")])
def test_parts_have_names(monkeypatch: pytest.MonkeyPatch, name: str, expected: str) -> None:
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    assert named(name) == expected


def test_longer_names_come_before_those_in_them() -> None:
    names = list(PARTS)
    assert all(one not in other for i, one in enumerate(names) for other in names[i + 1:])


def test_pictures_are_in_english_where_no_font_here_has_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    monkeypatch.setattr("pellucid.inspection.style.families", lambda: ("DejaVu Sans",))
    assert (drawn("Heads"), drawn_name("encoder layer 2")) == ("Heads", "encoder layer 2")


def test_the_reader_is_spoken_to_in_one_way() -> None:
    root = SOURCE.parents[1]
    texts = [root / "README.zh-CN.md", *(root / "docs/zh-CN").glob("*.md"), root / "src/pellucid/cli/chinese.txt",
             root / "src/pellucid/inspection/chinese.py", root / "src/pellucid/serve/static/words.js"]
    assert [path.name for path in texts if "您" in path.read_text(encoding="utf-8")] == []
