"""`pellucid inspect`: what it writes, what it says when something is absent, and the page in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    assert check_page(html) == {"attention", "heads", "positions", "training", "parameters", "shapes"}
    names = {path.name for path in inspected.iterdir()}
    kinds = ["encoder-layers-0-self_attention", "decoder-layers-0-self_attention", "decoder-layers-0-cross_attention"]
    assert names == {"index.html", "head-entropy.png", "head-distance.png", "head-importance.png", "positions.png",
                     "training.png", "gradient-flow.png", "update-ratios.png",
                     *(f"attention-{i}-{kind}.png" for i in (1, 2) for kind in kinds)}
    assert "1 2 3 &lt;b&gt;&amp;" in html
    assert "春 4" in html
    assert html.count('class="map"') == 2 * 3 * 2  # sentences, attentions, heads


def test_the_page_of_a_classifier(inspected_classifier: Path, check_page: Check) -> None:
    html = (inspected_classifier / "index.html").read_text(encoding="utf-8")
    assert "confusion" in check_page(html)
    assert (inspected_classifier / "confusion.png").exists()
    assert "The sentences are from the test data." in html


def test_what_is_absent_is_said(cli: Any, copy: Path, check_page: Check) -> None:
    (copy / "metrics.jsonl").unlink()
    shutil.rmtree(copy / "data")
    config = copy / "config.yaml"
    config.write_text(re.sub(r"data:\n(  .*\n)+", "data: {train: gone.tsv, validation: gone.tsv, test: gone-too.tsv}\n",
                             config.read_text()))
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
    cli("inspect", run, "--text", "1", "--out", tmp_path / "file").says(74, str(tmp_path / "file"))
    cli("inspect", tmp_path).says(4, "not a run folder")


def test_characters_that_no_font_has_are_told(cli: Any, run: Path, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pellucid.inspection.inspect.missing_glyphs", lambda labels: "春眠")
    done = cli("inspect", run, "--text", "1 2", "--pairs", "0", "--out", tmp_path)
    assert done.code == 0
    assert "no font here has 春 眠" in done.err
    assert "no font" not in done.out
    assert "has 春 眠, so they are boxes" in (tmp_path / "index.html").read_text(encoding="utf-8")


def browse(page: Path, folder: Path, width: int) -> tuple[list[str], list[str]]:
    """Opens a page in a headless Chromium: the lines of its console, and every address that it asked for."""
    if BROWSER is None:
        assert not os.environ.get("PELLUCID_REQUIRE_BROWSER"), "no Chromium here, and PELLUCID_REQUIRE_BROWSER is set"
        pytest.skip("no Chromium here: install the Debian package chromium")
    shot, log = folder / "shot.png", folder / "network.json"
    done = subprocess.run([BROWSER, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900",
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


def test_the_browser_would_tell(tmp_path: Path) -> None:
    """The test above sees what it looks for."""
    page = tmp_path / "page.html"
    page.write_text('<!DOCTYPE html><img src="http://example.invalid/a.png"><script>console.error("oh")</script>')
    console, asked = browse(page, tmp_path, 400)
    assert any("oh" in line for line in console)
    assert asked == ["http://example.invalid/a.png"]
