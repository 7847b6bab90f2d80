"""What is said in Chinese is what is said in English: the same commands, figures and tables, page by page.

Running text is compared by its numbers alone, in any order: 147 万 is 1.47 million. What `make results` writes anew is
held cell by cell and paragraph by paragraph, in test_claims.py.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.places import english, read_pages

ROOT = Path(__file__).resolve().parents[2]
PAGES = {page: text for page, text in read_pages().items() if english(page)}
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(\d+(?:,\d{3})+|\d+)(\.\d+)?(?:\s(million\b|M\b|万))?")
SCALES = {"million": 10 ** 6, "M": 10 ** 6, "万": 10 ** 4}
LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)")
FOR_DEVELOPERS = {"architecture", "kernels"}


def original(page: str) -> str:
    return (ROOT / english(page)).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Without code blocks, the comments that a browser hides, and where links lead."""
    return re.sub(r"\]\([^)]*\)|<!--.*?-->", "", FENCE.sub("", text), flags=re.DOTALL)


def figures(text: str) -> Counter[str]:
    """Its numbers as they are written, thousands apart; millions and 万 by what they are."""
    found: Counter[str] = Counter()
    for whole, decimals, scale in NUMBER.findall(prose(text)):
        number = whole + decimals
        found[f"{float(number.replace(',', '')) * SCALES[scale]:.0f}" if scale else number] += 1
    return found


def shape(text: str) -> dict[str, list[int] | int]:
    """How many headings of each level, cells in each row of a table, and items of lists it has."""
    plain = FENCE.sub("", text)
    return {"headings": [len(signs) for signs in re.findall(r"^(#+) ", plain, re.MULTILINE)],
            "cells": [len(re.findall(r"(?<!\\)\|", row)) for row in re.findall(r"^\|.*$", plain, re.MULTILINE)],
            "items": len(re.findall(r"^- ", plain, re.MULTILINE))}


def anchors(text: str) -> set[str]:
    """What the headings of a page are called in links."""
    heads = re.findall(r"^#+ +(.*)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", LINK.sub("", head)).strip().lower().replace(" ", "-") for head in heads}


def test_every_page_for_users_is_there_in_both_languages() -> None:
    ours, theirs = ({path.stem for path in (ROOT / folder).glob("*.md")} for folder in ("docs/zh-CN", "docs"))
    assert ours == theirs - FOR_DEVELOPERS


@pytest.mark.parametrize("page", PAGES)
def test_code_is_the_same_to_the_byte(page: str) -> None:
    assert FENCE.findall(PAGES[page]) == FENCE.findall(original(page))


@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_the_same(page: str) -> None:
    ours, theirs = figures(PAGES[page]), figures(original(page))
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())


@pytest.mark.parametrize("page", PAGES)
def test_headings_tables_and_lists_are_the_same(page: str) -> None:
    assert shape(PAGES[page]) == shape(original(page))


@pytest.mark.parametrize("page", PAGES)
def test_names_in_code_are_the_same(page: str) -> None:
    """Keys, verbs, files and commands in running text."""
    ours, theirs = (Counter(" ".join(name.split()) for name in re.findall(r"`([^`]+)`", prose(text)))
                    for text in (PAGES[page], original(page)))
    assert (ours - theirs, theirs - ours) == (Counter(), Counter())


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_heading_and_stay_in_chinese_where_they_can(page: str) -> None:
    here = (ROOT / page).parent
    first, *rest = LINK.findall(FENCE.sub("", PAGES[page]))
    assert (here / first[0]).resolve() == ROOT / english(page)
    for target, anchor in rest:
        if "://" in target:
            continue
        path = (here / target).resolve() if target else ROOT / page
        assert path.exists(), target
        if path.suffix == ".md":
            assert not (path.parent == ROOT / "docs" and (ROOT / "docs/zh-CN" / path.name).exists()), target
            assert path != ROOT / "README.md"
            assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), f"{target}#{anchor}"


@pytest.mark.parametrize(("one", "other", "same"), [
    ("1.47 million records", "147 万条记录", True), ("2.6 M", "260 万", True),
    ("1,000 of 1,000", "1,000 个中有 1,000 个", True), ("8,000 words", "8000 词", False),
    ("20 s", "20 秒，21", False), ("`top_5`", "`top_5`", True), ("T5", "T", False)])
def test_numbers_are_told_apart(one: str, other: str, same: bool) -> None:
    assert (figures(one) == figures(other)) == same


@pytest.mark.parametrize("page", PAGES)
def test_text_keeps_to_chinese_punctuation(page: str) -> None:
    """No half-width comma, semicolon or colon after a Chinese character, no space or new line between two."""
    plain = re.sub(r"`[^`]*`", "``", prose(PAGES[page]))
    assert re.findall(r".{3}[\u4e00-\u9fff](?:[,;:?!]|[ \t]+(?=[\u4e00-\u9fff])).{4}", plain) == []
    assert re.findall(r".{3}[\u4e00-\u9fff]\n *[\u4e00-\u9fff].{4}", plain) == []  # shown as a space
    assert re.findall(r".{3}[，。：；！？）”][*]+[\u4e00-\u9fff].{4}", plain) == []  # not shown in bold
