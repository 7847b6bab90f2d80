"""The tables that benchmarks print are those of the text: their rows and columns go by the same names, and what was
measured and kept in benchmarks/results stands there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import decode_table, techniques, train, translate
from benchmarks.claims import ROOT, read_claims
from benchmarks.places import find, read_pages
from benchmarks.tables import cells, printed

PAGES = read_pages()
SPOTS = find(read_claims(), PAGES)[0]
WIDTHS = {cell.corner: cell.width for page, text in PAGES.items() for cell in cells(page, text)}


def rows(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((ROOT / "benchmarks/results" / name).read_text(encoding="utf-8"))["rows"]
    return found


def decoded() -> str:
    """Of the rows that were measured again, the later ones."""
    later = rows("2026-11-22-decode-small-cpu.json")
    key = ("model", "workload", "system", "setting")
    again = {tuple(row[k] for k in key) for row in later}
    earlier = [row for row in rows("2026-11-21-decode-cpu.json") if tuple(row[k] for k in key) not in again]
    return decode_table.tables(earlier + later)


@pytest.mark.parametrize(("line", "output", "least"), [
    ("train", train.table(rows("2026-11-21-train-cpu.json")), 150), ("decode", decoded(), 60),
    ("translate", translate.table(rows("2026-11-22-translate-cpu.json")), 20)])
def test_what_is_printed_is_what_stands_in_the_text(line: str, output: str, least: int) -> None:
    made = printed(output, WIDTHS)
    spots = [spot for spot in SPOTS if spot.line == line and spot.column]
    assert len(spots) >= least
    for spot in spots:
        row, _, column = spot.name.rpartition(" > ")
        value = made[row, column].numbers[spot.order].value
        assert spot.number.styled(value) == spot.number.text, spot.place


def test_a_number_that_did_not_move_is_written_as_it_was() -> None:
    assert [spot.place for spot in SPOTS if spot.number.styled(spot.number.value) != spot.number.text] == []


def test_the_best_peer_of_each_workload() -> None:
    made = printed(train.best_peers(rows("2026-11-21-train-cpu.json")), {})
    factors = [cell.numbers[0].value for (_, column), cell in made.items() if column == "× the best peer"]
    assert (len(factors), min(factors), max(factors)) == (6, 1.70, 2.86)


def test_techniques_print_a_row_for_each_pass(capsys: pytest.CaptureFixture[str],
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["techniques", "--repeat", "1"])
    monkeypatch.setattr(techniques, "passes", lambda: {"a small pass": lambda: techniques.leaf(4).sum()})
    techniques.main()
    assert ("a small pass", "×") in printed(capsys.readouterr().out, {})
