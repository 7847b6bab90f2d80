"""Lines that tell the truth pass; one whose band or whose text was made to lie is caught, by running it or without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks import remake
from benchmarks.claims import Claims, read_claims
from benchmarks.places import find
from pellucid.errors import ConfigError

PAGE = """# Numbers

| what | score | time |
|---|---|---|
| the first | 99.4 % (98.9 to 99.8) | 1,200 s |
| the second | 41.2 | |

| table | speed | × |
|---|---|---|
| fast | 300 | 2.0 |

The second has 41.2 points.
"""
LINES: dict[str, Any] = {
    "first": {"about": "one", "minutes": 0.1, "seeds": [1, 2],
              "commands": ["echo '{\"runs\": [{\"exact\": 99.'{seed}', \"interval\": {\"exact\": [98.7, 99.9]}}]}'"],
              "figures": {"exact": {"key": "runs.0.exact", "band": [99, 100], "interval": 1},
                          "seconds": {"clock": True}},
              "text": {"page.md > Numbers > the first > score": "{exact} % ({exact_low} to {exact_high})",
                       "page.md > Numbers > the first > time": "{seconds} s"},
              "quick": {}},
    "second": {"about": "two", "minutes": 0.1, "commands": ["echo score: 41.3"],
               "figures": {"score": {"pattern": r"score: ([\d.]+)", "band": [41, 42]}},
               "text": {"page.md > Numbers > the second > score": "{score}",
                        "page.md > Numbers": "The second has {score} points."},
               "quick": {"commands": ["echo score: 20.5"], "bands": {"score": [20, 21]}}},
    "third": {"about": "three", "minutes": 0.1,
              "commands": ["printf '| table | speed | × |\\n|---|---|---|\\n| fast | 500 | 2.1 |\\n'"],
              "tables": {"page.md > Numbers > fast > *": {"×": [1.5, 2.5]}}, "quick": {}}}


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a page and its claims; what is remade there is kept there."""
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(remake, "read_pages", lambda: {"page.md": (tmp_path / "page.md").read_text(encoding="utf-8")})
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(tmp_path, LINES))
    monkeypatch.setattr(remake, "ROOT", tmp_path)
    return tmp_path


def claims_of(folder: Path, lines: dict[str, Any], **more: Any) -> Claims:
    path = folder / "claims.yaml"
    path.write_text(yaml.safe_dump({"lines": lines, **more}), encoding="utf-8")
    return read_claims(path)


def changed(line: str, **keys: Any) -> dict[str, Any]:
    """The lines, some keys of one replaced."""
    return LINES | {line: LINES[line] | keys}


def run(desk: Path, *words: str) -> int:
    return remake.main([*words, "--results", str(desk / "results")])


def test_what_is_true_passes_and_what_moved_is_offered(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(desk, "--quick") == 0
    assert not (desk / "results/text.diff").exists()
    assert run(desk) == 0
    told = capsys.readouterr().out
    assert "third: moved     fast > speed: 300 in the text, 500" in told
    assert "here: " in told
    assert (desk / "page.md").read_text(encoding="utf-8") == PAGE
    assert "+| fast | 500 | 2.1 |" in (desk / "results/text.diff").read_text(encoding="utf-8")
    assert run(desk, "--write") == 0
    written = (desk / "page.md").read_text(encoding="utf-8")
    assert "| the second | 41.3 | |" in written
    assert "The second has 41.3 points." in written
    assert "99.2 % (98.7 to 99.9) | 0 s" in written  # the mean of 99.1 and 99.2, and a moment


@pytest.mark.parametrize(("lines", "names"), [
    (changed("second", quick={"commands": ["echo score: 20.5"], "bands": {"score": [30, 31]}}), ["second"]),
    (changed("third", tables={"page.md > Numbers > fast > *": {"×": [1.5, 2.05]}}), ["third"]),
    (changed("first", commands=["echo '{}'"]), ["first"]), (changed("third", commands=["echo nothing"]), ["third"]),
    (changed("second", quick={"commands": ["exit 3"]}), ["second"])])
def test_a_line_with_a_wrong_band_or_without_a_number_is_caught(
        lines: dict[str, Any], names: list[str], desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, lines))
    assert run(desk, "--quick", *names) == 1
    others = [name for name in LINES if name not in names]
    assert run(desk, "--quick", *others) == 0


@pytest.mark.parametrize(("printed", "said"), [
    ("slow | 500 | 2.1", ["speed: 300 in the text, and", "×: 2.0 in the text, and"]),
    ("fast | 500 |", ["×: 2.0 in the text, and"]), ("fast | | 2.1", ["speed: 300 in the text, and"])])
def test_a_cell_of_the_text_that_is_not_printed_is_caught(printed: str, said: list[str], desk: Path,
                                                          capsys: pytest.CaptureFixture[str],
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    commands = [f"printf '| table | speed | × |\\n|---|---|---|\\n| {printed} |\\n| other | 1 | 1.6 |\\n'"]
    lines = changed("third", commands=commands, quick={"commands": commands, "bands": {"×": [1.5, 2.5]}})
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, lines))
    assert run(desk, "--quick", "third") == 0  # it is to print a part
    assert run(desk, "third") == 1
    told = capsys.readouterr().out.splitlines()
    assert [line for line in told if "lacking  " in line] == [
        f"third: lacking   fast > {one} was not printed" for one in said]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("99.4 %", "98.4 %", "says 98.4, outside of its band 99 to 100"), ("| 2.0 |", "| 3.0 |", "says 3.0, outside"),
    ("has 41.2 points", "has 41.6 points", "score is 41.6 in page.md > Numbers, 41.2 in page.md > Numbers > the sec"),
    ("| 41.2 | |", "| 41.2 | 7 s |", "no line of claims.yaml holds page.md > Numbers > the second > time: 7 s"),
    ("(98.9 to 99.8)", "(98.9 to 99.8; 7 others)", "should read: {exact} % ({exact_low} to {exact_high})"),
    ("| the second |", "| the other |", "page.md > Numbers > the second > score is in the text 0 times"),
    ("| fast | 300 | 2.0 |", "| slow | 300 | 2.0 |", "page.md > Numbers > fast > * is not in the text")])
def test_a_text_that_lies_is_caught_without_a_run(old: str, new: str, said: str, desk: Path) -> None:
    assert find(claims_of(desk, LINES), {"page.md": PAGE})[1] == []
    faults = find(claims_of(desk, LINES), {"page.md": PAGE.replace(old, new, 1)})[1]
    assert any(said in fault for fault in faults), faults
    (desk / "page.md").write_text(PAGE.replace(old, new, 1), encoding="utf-8")
    assert run(desk, "--quick", "second") == 1


CHINESE = (PAGE.replace("# Numbers", "# 数").replace(" % (98.9 to 99.8)", " %（98.9 至 99.8）")
           .replace("The second has 41.2 points", "第二行得 41.2 分"))


@pytest.mark.parametrize(("page", "name"), [("page.md", "page.zh-CN.md"), ("docs/page.md", "docs/zh-CN/page.md")])
def test_a_page_in_chinese_repeats_the_figures_of_its_english_one(page: str, name: str, desk: Path) -> None:
    lines = yaml.safe_load(yaml.safe_dump(LINES).replace("page.md", page))
    claims = claims_of(desk, lines)
    spots, faults = find(claims, {page: PAGE, name: CHINESE})
    assert faults == []
    ours, theirs = ([spot.number.text for spot in spots if spot.page == one] for one in (name, page))
    assert sorted(ours) == sorted(theirs)
    assert ours.count("41.2") == 2  # in the table, and in the sentence below it
    faults = find(claims, {page: PAGE, name: CHINESE.replace("99.4", "99.5")})[1]
    assert f"{name} > 数 > the first > score has no 99.4, as {page} > Numbers > the first > score has" in faults
    faults = find(claims, {page: PAGE, name: CHINESE.replace("得 41.2 分", "得 41.3 分")})[1]
    assert f"{name} > 数 has no 41.2, as {page} > Numbers has" in faults
    faults = find(claims, {page: PAGE, name: CHINESE.replace("| the second | 41.2 | |\n", "")})[1]
    assert any("cells and paragraphs" in fault for fault in faults)
    assert any("cells and paragraphs" in fault for fault in find(claims, {name: CHINESE})[1])


def test_what_moved_is_written_into_both_languages(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk / "page.zh-CN.md").write_text(CHINESE, encoding="utf-8")
    monkeypatch.setattr(remake, "read_pages", lambda: {
        name: (desk / name).read_text(encoding="utf-8") for name in ("page.md", "page.zh-CN.md")})
    assert run(desk, "--write") == 0
    written = (desk / "page.zh-CN.md").read_text(encoding="utf-8")
    assert "第二行得 41.3 分" in written
    assert "| the first | 99.2 %（98.7 至 99.9） | 0 s |" in written


def test_what_is_done_is_not_done_again(desk: Path, capsys: pytest.CaptureFixture[str],
                                        monkeypatch: pytest.MonkeyPatch) -> None:
    counting = changed("second", commands=["echo x >> count; echo score: 41.3", "echo score: 41.3"])
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, counting))
    assert run(desk, "second") == run(desk, "second") == 0
    assert "kept from" in capsys.readouterr().err
    assert (desk / "results/whole/count").read_text() == "x\n"
    (desk / "results/whole/second/outcome.json").write_text('{"commands')  # the command ended, so it is read again
    assert run(desk, "second") == 0
    assert (desk / "results/whole/count").read_text() == "x\n"
    assert run(desk, "second", "--again") == 0
    assert (desk / "results/whole/count").read_text() == "x\nx\n"


def test_a_line_goes_on_after_its_last_command_that_ended(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands = ["echo x >> count; echo '{}'", f"test -e go && {LINES['first']['commands'][0]}"]
    stopping = changed("first", commands=commands)
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, stopping))
    assert run(desk, "first") == 1
    (desk / "results/whole/go").touch()
    assert run(desk, "first") == 0
    assert (desk / "results/whole/count").read_text() == "x\n"


def test_what_cannot_be_run_is_left_out_with_its_reason(desk: Path, capsys: pytest.CaptureFixture[str],
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    lines = changed("second", needs={"data": ["words"]}) | {"first": LINES["first"] | {"needs": {"lines": ["second"]}}}
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, lines))
    assert run(desk, "first") == 0
    assert "no DATA was given, and it needs words" in capsys.readouterr().err
    (desk / "given" / "words").mkdir(parents=True)
    assert run(desk, "first", "--data", str(desk / "given")) == 0
    assert "left out" not in capsys.readouterr().err
    assert run(desk, "first", "--data", str(desk / "nowhere")) == 3


def test_a_line_for_another_processor_is_left_out_with_the_reason(desk: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    lines = changed("first", needs={"instructions": ["avx_vnni"]})
    monkeypatch.setattr(remake, "read_claims", lambda: claims_of(desk, lines))
    for had, told in ((frozenset[str](), True), (frozenset({"avx_vnni"}), False)):
        monkeypatch.setattr("pellucid.kernels.levels.instructions", lambda had=had: had)
        assert run(desk, "first") == 0
        assert ("left out: this processor has no avx_vnni" in capsys.readouterr().err) == told


def test_mistakes_are_told(desk: Path) -> None:
    assert run(desk, "fourth") == 2
    assert run(desk, "--quick", "--write") == 2
    assert remake.main(["second", "--results", str(desk / "page.md")]) == 74
    for keys in ({"figures": {"score": {"kye": "a"}}}, {"commands": []}, {"figures": {"score": {"band": [1]}}},
                 {"quick": {"bands": {"score": 3}}}, {"needs": {"lines": ["nothing"]}}):
        with pytest.raises(ConfigError):
            claims_of(desk, changed("second", **keys))
