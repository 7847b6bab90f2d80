"""The form of regular verse, and the command that counts it."""

from __future__ import annotations

import pytest

from benchmarks.verse import is_regular, summary

FIVE = "秦川雄帝宅，函谷壯皇居。"
SEVEN = "朝辭白帝彩雲間，千里江陵一日還。"


@pytest.mark.parametrize("poem", [FIVE, f"{FIVE}\n{FIVE}", f"{SEVEN}\n{SEVEN}", "舉頭望明月，低頭思故鄉？"])
def test_regular(poem: str) -> None:
    assert is_regular(poem)


@pytest.mark.parametrize("poem", [
    "", "\n", f"{FIVE}\n", f"{FIVE}{FIVE}", f"{FIVE}\n{SEVEN}", FIVE[:-1], FIVE.replace("，", ""),
    FIVE.replace("，", "。"), FIVE.replace("秦", ""), FIVE.replace("秦", "a"), f"{FIVE}\n\n{FIVE}", f" {FIVE}"])
def test_irregular(poem: str) -> None:
    assert not is_regular(poem)


def test_the_share_is_a_percentage_with_its_interval() -> None:
    share, low, high = summary([{"regular": i % 4 > 0} for i in range(100)])
    assert share == 75
    assert 60 < low < 75 < high < 90
