"""`pellucid inspect`: what it writes, what it says when something is absent, and the page in a browser."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.inspection import position_section
from pellucid.train.workers import on_threads

Check = Callable[[str], set[str]]
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
         "--v=0", "--host-resolver-rules=MAP * ~NOTFOUND"]
BY_ITSELF = "not an origin"  # who asked, in the browser's log of its network, where no page did


@pytest.fixture(scope="module")
def inspected(cli: Any, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that an inspection of the copy run wrote."""
    out = tmp_path_factory.mktemp("inspected") / "copy"
    done = cli("inspect", run, "--text", "1 2 3 <b>&", "--text", "春 4", "--out", out, "--pairs", "6")
    assert done.code == 0, done.err
    assert str(out / "index.html") in done.out
    assert "in text 2 the model does not know 春, and reads ⁇ instead" in done.err
    return out


@pytest.fixture(scope="module")
def inspected_classifier(cli: Any, classifier: Path) -> Path:
    """The same of the classifier, where the command line puts it by itself."""
    assert cli("evaluate", classifier).code == 0
    done = cli("inspect", classifier, "--pairs", "6")
    assert done.code == 0, done.err
    return classifier / "inspection"


def test_the_page_and_its_pictures(inspected: Path, check_page: Check) -> None:
    html = (inspected / "index.html").read_text(encoding="utf-8")
    assert "‹unknown: 春›" in html
    assert check_page(html) == {"attention", "heads", "positions", "training", "weights", "parameters",
                                 "shapes"}
    names = {path.name for path in inspected.iterdir()}
    kinds = ["encoder-layers-0-self_attention", "decoder-layers-0-self_attention", "decoder-layers-0-cross_attention"]
    pictures = {"head-entropy", "head-distance", "head-importance", "positions", "training", "gradient-flow",
                "update-ratios", "weights", "weight-sizes",
                *(f"attention-{i}-{kind}" for i in (1, 2) for kind in kinds)}
    assert names == {"index.html", "parameters.csv", *(f"{name}.{end}" for name in pictures for end in ("png", "csv"))}
    assert "1 2 3 &lt;b&gt;&amp;" in html
    assert "春 4" in html
    assert html.count('class="map"') == 2 * 3 * 2  # sentences, attentions, heads


def test_another_process_draws_the_same(cli: Any, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def files(name: str) -> dict[str, bytes]:
        with on_threads(2):
            assert cli("inspect", run, "--text", "1 2 3", "--out", tmp_path / name, "--pairs", "0").code == 0
        return {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}

    left = tmp_path / "forked" / f".tmp-{'0' * 32}-attention.png"  # by one that was killed
    left.parent.mkdir()
    left.touch()
    os.utime(left, (0, 0))
    forked = files("forked")
    monkeypatch.setattr("pellucid.inspection.meanwhile.can_fork", lambda: False)
    assert files("alone") == forked


def test_the_numbers_beside_the_pictures_are_those_of_the_run(inspected: Path, run: Path) -> None:
    def rows(name: str) -> list[dict[str, str]]:
        with (inspected / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    sums = defaultdict[tuple[str, str], float](float)
    for row in rows("attention-1-decoder-layers-0-cross_attention"):
        sums[row["head"], row["query_position"]] += float(row["weight"])
    assert list(sums.values()) == pytest.approx([1.0] * len(sums))
    metrics = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    losses = [(str(one["step"]), str(one["loss"])) for one in metrics if one["event"] == "train"]
    assert [(row["step"], row["value"]) for row in rows("training")
            if (row["event"], row["measure"]) == ("train", "loss")] == losses
    told = {row["parameter"]: float(row["norm"]) for row in rows("parameters")}
    assert told == pytest.approx({name: float(one.detach().norm()) for name, one in
                                  pellucid.load(run).model.named_parameters()}, rel=1e-5)


def test_the_page_of_a_classifier(inspected_classifier: Path, check_page: Check) -> None:
    html = (inspected_classifier / "index.html").read_text(encoding="utf-8")
    assert "confusion" in check_page(html)
    assert (inspected_classifier / "confusion.png").exists()
    assert "The sentences are from the test data." in html
    assert ", pooling mean" in html
    assert "decoder" not in html
    scores = (inspected_classifier / "training.csv").read_text(encoding="utf-8")
    assert scores.count("validation,accuracy,") == scores.count("validation,macro_f1,") == scores.count(
        "validation,loss,") > 1


class Words(HTMLParser):
    """The text that a reader sees, but for code and what lies in the cells of a table or an attention map."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)
        self.texts += [str(value) for name, value in attributes if name in ("alt", "aria-label")]

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if not {"style", "code", "text", "dd"} & set(self.open):
            self.texts.append(data)


@pytest.mark.parametrize("kind", ["run", "classifier"])
def test_the_page_in_chinese_has_no_english_sentence(
        cli: Any, kind: str, tmp_path: Path, request: pytest.FixtureRequest, check_page: Check,
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PELLUCID_LANG", "zh")
    done = cli("inspect", request.getfixturevalue(kind), "--pairs", "2", "--out", tmp_path)
    assert done.code == 0, done.err
    assert "请在浏览器中打开" in done.out
    html = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert '<html lang="zh">' in html
    assert {"attention", "weights"} < check_page(html)
    reader = Words()
    reader.feed(html)
    names = r"Roy and Vetterli|pellucid evaluate"
    found = [text for text in reader.texts if re.search(r"[a-z]{2,} [a-z]{2,}", re.sub(names, "", text))]
    assert found == []


@pytest.mark.parametrize("position", ["t5", "learned"])
def test_what_is_learned_of_positions_is_drawn_as_far_as_training_went(
        cli: Any, tiny: Path, tmp_path: Path, position: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pairs are of two to five numbers, and an end: no distance is beyond 5."""
    run, drawn = tmp_path / "run", list[tuple[int, ...]]()

    def spy(name: str) -> None:
        draw = getattr(position_section, name)
        monkeypatch.setattr(position_section, name, lambda tensors, *more: drawn.extend(
            tuple(one.shape) for one in (tensors if isinstance(tensors, list) else [tensors])) or draw(tensors, *more))

    assert cli("train", tiny, "--out", run, "--train.steps", "2", "--model.position", position).code == 0
    spy("bias_curves" if position == "t5" else "encoding")
    assert cli("inspect", run, "--pairs", "0", "--out", tmp_path / "a").code == 0
    assert drawn == ([(2, 6, 6)] if position == "t5" else [(6, 16)]) * 2  # encoder, decoder
    html = (tmp_path / "a" / "index.html").read_text(encoding="utf-8")
    assert "up to 6 tokens read and 6 written, in the first 300 training examples" in html
    lose_data(run)
    assert cli("inspect", run, "--text", "1 2", "--pairs", "0", "--out", tmp_path / "b").code == 0
    html = (tmp_path / "b" / "index.html").read_text(encoding="utf-8")
    assert "How long the sequences of training were is not known here" in html
    if position == "t5":
        with (tmp_path / "a" / "positions-curves.csv").open(encoding="utf-8", newline="") as file:
            rows = [(row["attention"].split(".")[0], int(row["distance"])) for row in csv.DictReader(file)]
        assert set(rows) == {("encoder", i) for i in range(-5, 6)} | {("decoder", i) for i in range(-5, 1)}


def lose_data(run: Path) -> None:
    """The run's data is not where it was."""
    shutil.rmtree(run / "data")
    config = run / "config.yaml"
    config.write_text(re.sub(r"data:\n(  .*\n)+", "data: {train: gone.tsv, validation: gone.tsv, test: gone-too.tsv}\n",
                             config.read_text()))


def test_what_is_absent_is_said(cli: Any, copy: Path, check_page: Check) -> None:
    (copy / "metrics.jsonl").unlink()
    lose_data(copy)
    cli("inspect", copy, "--out", copy / "a").says(2, "no sentence to look at", "gone", "--text")
    done = cli("inspect", copy, "--text", "1 2", "--out", copy / "a")
    assert done.code == 0, done.err
    html = (copy / "a" / "index.html").read_text(encoding="utf-8")
    assert "There is no metrics.jsonl" in html
    assert "The heads could not be measured" in html
    check_page(html)


def test_a_run_from_before_the_flow_was_recorded(cli: Any, copy: Path) -> None:
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    kept = [{key: value for key, value in line.items() if key not in ("gradient_norms", "update_ratios")}
            for line in lines]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in kept))
    assert cli("inspect", copy, "--pairs", "0").code == 0
    html = (copy / "inspection" / "index.html").read_text(encoding="utf-8")
    assert "were not recorded" in html
    assert "--pairs 0" in html
    assert not (copy / "inspection" / "gradient-flow.png").exists()


def test_what_cannot_be_is_refused(cli: Any, run: Path, tmp_path: Path) -> None:
    cli("inspect", run, "--text", " ", "--out", tmp_path / "a").says(2, "empty", "--text")
    cli("inspect", run, "--pairs", "-1", "--out", tmp_path / "a").says(2, "--pairs")
    (tmp_path / "file").write_text("")
    cli("inspect", run, "--text", "1", "--out", tmp_path / "file").says(2, "no folder", str(tmp_path / "file"))
    (tmp_path / "attention-notes.csv").write_text("mine")
    cli("inspect", run, "--text", "1", "--out", tmp_path).says(2, "no inspection's, and is not", "attention-notes")
    assert (tmp_path / "attention-notes.csv").read_text() == "mine"
    cli("inspect", tmp_path).says(4, "not a run folder")


def test_a_text_that_is_cut_is_told_by_its_number(cli: Any, run: Path, tmp_path: Path) -> None:
    done = cli("inspect", run, "--text", "1 2", "--text", "1 2 " * 100, "--pairs", "0", "--out", tmp_path)
    assert done.code == 0
    lost = re.search(r"line 2 loses (\d+) of", done.err)
    assert lost is not None
    assert "line 1 loses " not in done.err
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<dt>left out</dt><dd>the last (\d+) tokens of the text", page) == [lost[1]]


def test_characters_that_no_font_has_are_told(cli: Any, run: Path, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.inspection.inspect.missing_glyphs", lambda labels: "春眠")
    done = cli("inspect", run, "--text", "1 2", "--pairs", "0", "--out", tmp_path)
    assert done.code == 0
    assert "no font here has 春 眠" in done.err
    assert "no font" not in done.out
    assert "has 春 眠, so they are boxes" in (tmp_path / "index.html").read_text(encoding="utf-8")


def browser() -> str:
    if BROWSER is None:
        assert not os.environ.get("PELLUCID_REQUIRE_BROWSER"), "no Chromium here, and PELLUCID_REQUIRE_BROWSER is set"
        pytest.skip("no Chromium here: install the Debian package chromium")
    return BROWSER


def browse(page: Path, folder: Path, width: int) -> tuple[list[str], list[str]]:
    """Opens a page in a headless Chromium: the lines of its console, and every address that it asked for."""
    shot, log = folder / "shot.png", folder / "network.json"
    done = subprocess.run([browser(), *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900",
                           f"--screenshot={shot}", f"--log-net-log={log}", page.as_uri()],
                          capture_output=True, text=True, timeout=240, check=False)
    assert shot.exists(), done.stderr
    told = [event.get("params", {}) for event in json.loads(log.read_text(encoding="utf-8"))["events"]]
    asked = [params["url"] for params in told if params.get("initiator", BY_ITSELF) != BY_ITSELF]
    return [line for line in done.stderr.splitlines() if "CONSOLE" in line], asked


@pytest.mark.parametrize("width", [1200, 400])
def test_in_a_browser_nothing_goes_wrong_and_nothing_is_asked_for(
        inspected: Path, inspected_classifier: Path, tmp_path: Path, width: int) -> None:
    for folder in (inspected, inspected_classifier):
        (tmp_path / folder.name).mkdir()
        assert browse(folder / "index.html", tmp_path / folder.name, width) == ([], [])


def test_on_paper_nothing_is_cut(inspected: Path, inspected_classifier: Path) -> None:
    """Of a sheet of A4, within the margins; whatever the reader has unfolded before."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        page = driver.chromium.launch(executable_path=browser(), args=FLAGS).new_page(
            viewport={"width": 718, "height": 1000})
        page.emulate_media(media="print")
        for folder in (inspected, inspected_classifier):
            page.goto((folder / "index.html").as_uri())
            assert page.evaluate("""() => {
                document.querySelectorAll("details").forEach(one => one.open = true);
                return [document.documentElement, ...document.querySelectorAll("figure, .wide")].filter(
                    one => one.scrollWidth > one.clientWidth + 1).map(one => one.outerHTML.slice(0, 200));
            }""") == []


def test_the_browser_would_tell(tmp_path: Path) -> None:
    """The test above sees what it looks for."""
    page = tmp_path / "page.html"
    page.write_text('<!DOCTYPE html><img src="http://example.invalid/a.png"><script>console.error("oh")</script>')
    console, asked = browse(page, tmp_path, 400)
    assert any("oh" in line for line in console)
    assert asked == ["http://example.invalid/a.png"]


def test_pictures_of_sentences_and_heads_that_were_looked_at_before_go(cli: Any, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "pages"
    words = ("inspect", run, "--out", out, "--text", "1 2 3", "--pairs")
    assert cli(*words, 1, "--text", "3 2").code == 0
    assert list(out.glob("attention-2-*"))
    assert {path.stem for path in out.glob("head-*.csv")} == {path.stem for path in out.glob("head-*.png")} == {
        "head-entropy", "head-distance", "head-importance"}
    (out / "attention-notes.txt").write_text("mine")
    assert cli(*words, 0).code == 0
    assert not list(out.glob("attention-2-*"))
    assert not list(out.glob("head-*"))
    assert list(out.glob("attention-1-*"))
    assert (out / "attention-notes.txt").read_text() == "mine"
