"""The language that people are told things in, and how wide a text is."""

from __future__ import annotations

import pytest

from pellucid.language import columns, language


@pytest.mark.parametrize(("environment", "expected"), [
    ({}, "en"), ({"LANG": "zh_CN.UTF-8"}, "zh"), ({"LANG": "de_DE.UTF-8"}, "en"), ({"LANG": "C.UTF-8"}, "en"),
    ({"LC_MESSAGES": "zh_TW", "LANG": "en_US.UTF-8"}, "zh"), ({"LC_ALL": "C", "LC_MESSAGES": "zh_CN"}, "en"),
    ({"LC_ALL": "", "LANG": "zh_CN"}, "zh"), ({"PELLUCID_LANG": "zh", "LC_ALL": "en_US.UTF-8"}, "zh"),
    ({"PELLUCID_LANG": "ZH-cn"}, "zh"), ({"PELLUCID_LANG": "en", "LANG": "zh_CN.UTF-8"}, "en")])
def test_one_asks_for_it_or_the_locale_says_it(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str],
                                               expected: str) -> None:
    for name in ("PELLUCID_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language() == expected


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("cat", 3), ("é", 1), ("春眠 a", 6), ("，。", 4), ("▁a", 2),
                                                ("e\u0301", 1), ("नमस्ते", 4), ("\u200fمُحَمَّد", 4), ("하나", 4)])
def test_chinese_is_twice_as_wide_and_signs_on_letters_take_no_room(text: str, expected: int) -> None:
    assert columns(text) == expected
