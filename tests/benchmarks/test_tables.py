"""Numbers are found in the tables and sentences of a page, where they stand, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from benchmarks.tables import cells, numbers, printed, sections

PAGE = """# Page

| workload | system | tokens/s | of it |
|---|---|---|---:|
| short-8 | **ours** | 9,910 (9,601–10,096) | |
|  | theirs, fp32 | 4,047 | −0.5 % |

```text
| a | 1 |
|---|---|
| b | 2 |
```

## [Below](page.md)

| | alone | beside | beside |
|---|---|---|---|
| [copy](#copy) | 1 | 2 | `3` and 4 |
"""


def test_cells_go_by_heading_row_and_column() -> None:
    found = {cell.place: cell for cell in cells("page.md", PAGE)}
    assert list(found) == ["page.md > Page > short-8 | ours > tokens/s", "page.md > Page > short-8 | ours > of it",
                           "page.md > Page > short-8 | theirs, fp32 > tokens/s",
                           "page.md > Page > short-8 | theirs, fp32 > of it", "page.md > Below > copy > alone",
                           "page.md > Below > copy > beside", "page.md > Below > copy > beside 2"]
    for cell in found.values():
        assert PAGE[cell.start:cell.start + len(cell.text)] == cell.text
        for number in cell.numbers:
            assert PAGE[number.start:number.start + len(number.text)] == number.text
    values = [[number.value for number in cell.numbers] for cell in found.values()]
    assert values == [[9910, 9601, 10096], [], [4047], [-0.5], [1], [2], [4]]


@pytest.mark.parametrize(("text", "wanted"), [
    ("1,000 of 1,000, after 17 s", [1000, 1000, 17]), ("× 1.7 to 2.9", [1.7, 2.9]), ("42.67, 43.26", [42.67, 43.26]),
    ("fp32, int8, AVX-512, 5-gram, SHA-256, test2016, 0.5.1", []), ("`3` [4](5.md#6)", [4]), ("+11.5 %", [11.5]),
    ("−64 (−72 to −56)", [-64, -72, -56]), ("2 + 2", [2, 2]), ("贪心 0.52 秒对 0.65 秒，1.83 倍", [0.52, 0.65, 1.83])])
def test_digits_of_names_are_no_numbers(text: str, wanted: list[float]) -> None:
    assert [number.value for number in numbers(text)] == wanted


@pytest.mark.parametrize(("old", "value", "new"), [("9,910", 12345.6, "12,346"), ("41.2", 40, "40.0"),
                                                   ("+0.2", -0.91, "-0.9"), ("−64", -7, "−7"), ("1,000", 999, "999"),
                                                   ("999", 1000, "1,000"), ("2295.87", 2295.87, "2295.87"),
                                                   ("2295.87", 12345, "12345.00"), ("2,295.87", 12345, "12,345.00")])
def test_a_value_is_written_as_the_one_it_replaces(old: str, value: float, new: str) -> None:
    (number,) = numbers(old)
    assert number.styled(value) == new


def test_rows_that_were_printed_are_named_as_those_of_the_text() -> None:
    output = "| workload | system | tokens/s |\n|---|---|---|\n| short-8 | ours | 5 |\n"
    assert list(printed(output, {})) == [("short-8", "system"), ("short-8", "tokens/s")]
    assert list(printed(output, {"workload": 2})) == [("short-8 | ours", "tokens/s")]


def test_code_is_blanked_in_place() -> None:
    found = {heading: (start, body) for heading, start, body in sections(PAGE)}
    assert "b | 2" not in found["Page"][1]
    for start, body in found.values():
        assert len(PAGE[start:start + len(body)]) == len(body)
