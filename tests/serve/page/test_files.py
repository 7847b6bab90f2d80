"""The page's files, without a browser: small, safe, in both languages, and one script of all modules."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.search.options import length_penalty
from pellucid.serve import page

STATIC = Path(page.__file__).parent / "static"
MODULES = {path.name: path.read_text(encoding="utf-8") for path in sorted(STATIC.glob("*.js"))}
DOCUMENT = (STATIC / "index.html").read_text(encoding="utf-8")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="no node here")


def node(script: str, given: str = "") -> str:
    done = subprocess.run(["node", "--input-type=module", "-e", script], input=given, capture_output=True, text=True,
                          timeout=60, check=True)
    return done.stdout


def words() -> dict[str, tuple[str, str]]:
    """Every key with its English and its Chinese."""
    table = re.sub(r'"\s*\+\s*"', "", MODULES["words.js"].split("const WORDS = {")[1].split("\n};")[0])
    text = r'"((?:[^"\\]|\\.)*)"'
    found = re.findall(rf'^  "?([\w-]+)"?: \[{text},\s*{text}\],', table, re.MULTILINE)
    assert len(found) == table.count("],")
    return {key: (english, chinese) for key, english, chinese in found}


def test_all_of_it_is_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) <= 100_000


@pytest.mark.parametrize("path", sorted(STATIC.iterdir()), ids=lambda path: path.name)
def test_a_file_can_be_taken_in(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    assert [line for line in lines if len(line) > 120 and 'rel="icon"' not in line] == []


def test_nothing_is_made_of_text_but_text() -> None:
    for name, module in MODULES.items():
        unsafe = re.findall(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function", module)
        assert unsafe == [], name
    assert re.findall(r'\son\w+="|style="', DOCUMENT) == []


def test_addresses_of_others_are_links_and_nothing_else() -> None:
    for name, text in {**MODULES, "style.css": (STATIC / "style.css").read_text(), "index.html": DOCUMENT}.items():
        for place in re.finditer(r"(?:https?:)?//[\w.-]+\.\w+/", text):
            before = text[: place.start()]
            is_link = before.endswith('<a href="') or name == "contributions.js"
            assert is_link or "www.w3.org/2000/svg" in text[place.start() : place.end() + 8], (name, place.group())
    assert "url(" not in (STATIC / "style.css").read_text()
    assert "@import" not in (STATIC / "style.css").read_text()


def test_the_policy_allows_nothing_inline_and_nobody_else() -> None:
    policy = page.HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert "http" not in policy


def test_every_sentence_is_said_and_is_in_both_languages() -> None:
    known = words()
    used = set(re.findall(r'data-(?:word|label|hint)="([\w-]+)"', DOCUMENT))
    for name, module in MODULES.items():
        if name != "words.js":
            used |= {key for key in re.findall(r'"([\w-]+)"', module) if key in known}
        used |= set(re.findall(r'say\("([\w-]+)"', module))
    made = {f"state-{state}" for state in ("kept", "finished", "pruned")}
    made |= {name for method in ("gradient_x_input", "integrated_gradients", "leave_one_out")
             for name in (method, f"{method}-help")}
    made |= {name for side in ("text", "output") for name in (side, f"{side}-in")}
    made |= {"encoder", "decoder", "self", "cross"}
    assert used | made == set(known)
    for key, (english, chinese) in known.items():
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), key
        assert english
        assert key in ("log-p", "length", "to-language") or re.search(r"[\u4e00-\u9fff]", chinese), key


def test_a_page_to_be_saved_is_one_file_whose_scripts_its_policy_knows() -> None:
    html = page.files()["/replay.html"].body.decode()
    assert html.index(page.SAVED) < html.index('<script type="module">')
    assert "<link rel=\"stylesheet\"" not in html
    assert "src=" not in html
    assert re.findall(r"^(?:import|export) ", html, re.MULTILINE) == []
    assert len(re.findall(r"(?:script|style)-src 'sha256-[\w+/]+='", html)) == 2


@pytest.mark.parametrize(("asked", "told"), [("zh", 'data-language="zh"'), ("en", 'data-language="en"'),
                                            (None, '<html lang="en">')])
def test_the_server_tells_the_language_that_it_was_started_in(monkeypatch: pytest.MonkeyPatch, asked: str | None,
                                                              told: str) -> None:
    page.files.cache_clear()
    monkeypatch.delenv("PELLUCID_LANG")
    if asked:
        monkeypatch.setenv("PELLUCID_LANG", asked)
    assert told in page.files()["/"].body.decode()
    page.files.cache_clear()


@needs_node
def test_no_two_modules_give_a_name_to_different_things() -> None:
    static = {path.name: path.read_text(encoding="utf-8") for path in STATIC.iterdir()}
    script = page.one_script(static)
    assert all(f"{module.splitlines()[0]}\n" in script for module in MODULES.values())
    subprocess.run(["node", "--input-type=module", "--check"], input=script, text=True, check=True, timeout=60)


@needs_node
def test_the_page_orders_what_ended_as_a_search_does() -> None:
    draw = random.Random(1)
    asked = []
    for alpha in (-1.0, 0.0, 0.35, 0.6, 1.0, 2.0):
        finished = [{"length": draw.randint(1, 40), "log_probability": -draw.choice((draw.random() * 9, 3.0))}
                    for _ in range(40)]
        asked.append((alpha, finished))
    script = f"""import {{ranking}} from {json.dumps((STATIC / 'rank.js').as_uri())};
        import {{readFileSync}} from "node:fs";
        const asked = JSON.parse(readFileSync(0, "utf-8"));
        console.log(JSON.stringify(asked.map(([alpha, finished]) => ranking(finished, alpha))));"""
    for (alpha, finished), told in zip(asked, json.loads(node(script, json.dumps(asked))), strict=True):
        scores = [one["log_probability"] / length_penalty(one["length"], alpha) for one in finished]
        order = sorted(range(len(scores)), key=lambda i: -scores[i])
        assert [place for place, _ in told] == order
        assert [score for _, score in told] == pytest.approx([scores[i] for i in order], rel=1e-12)


@needs_node
@pytest.mark.parametrize(("a", "b", "place"), [("ab", "ab", -1), ("abc", "abd", 2), ("ab", "abc", 2), ("", "a", 0)])
def test_where_two_outputs_part(a: str, b: str, place: int) -> None:
    script = f"""import {{parting}} from {json.dumps((STATIC / 'rank.js').as_uri())};
        console.log(parting({json.dumps(list(a))}, {json.dumps(list(b))}));"""
    assert int(node(script)) == place
