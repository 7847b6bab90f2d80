"""What the documents tell people to type works: every command runs (at toy scale), every link leads somewhere."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tests.house.servers import Servers, check_extra

from benchmarks.places import english
from pellucid.ablate import calibrate
from pellucid.ablate.cells import cells_of
from pellucid.ablate.study import read_study
from pellucid.cli import VERBS, main
from pellucid.config.mapping import from_mapping
from pellucid.data.generated.documents import documents
from pellucid.data.generated.grammar import splits
from pellucid.data.squad import squad_of
from pellucid.data.tokenizers.symbols import symbols_of
from pellucid.recipes import read_recipe, recipe_names
from pellucid.studies import study_names

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Files that the documents speak of as the reader's own: which language side of tiny generated pairs stands in.
TEXTS = {"data/train.en": ("train", 0), "data/train.fr": ("train", 1), "data/test.en": ("test", 0),
         "data/test.fr": ("test", 1)}
TEXTS |= {f"data/multi30k/{file}.{language}": (split, side)
          for file, split in (("train", "train"), ("validation", "validation"), ("test2016", "test"))
          for side, language in enumerate(("en", "de"))}
TEXTS |= {"data/multi30k/few.en": ("validation", 0), "data/multi30k/few.de": ("validation", 1),
          "data/multi30k/text.txt": ("train", 0), "data/multi30k/text-validation.txt": ("validation", 0)}
TEXTS |= {"data/shards/1.en": ("train", 0), "data/shards/2.en": ("test", 0)}
REVIEWS = "data/reviews.tsv"
TOY = ["--train.steps", "2", "--train.epochs", "null", "--train.validate_every", "2", "--train.batch_tokens", "150",
       "--train.batch_sentences", "null", "--model.d_model", "16", "--model.d_ff", "16", "--model.n_heads", "2",
       "--model.encoder_layers", "1", "--model.decoder_layers", "1", "--decode.max_length", "24"]
TOY_DATA = ["--data.generated.train", "80", "--data.generated.validation", "20", "--data.generated.test", "60"]
NOT_RUN = {("source", ".venv/bin/activate"), (".ci/run",)}  # part of a set-up that the reader does


def fences(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in these languages, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [body for language, body in FENCE.findall(text) if language in languages]


def commands(page: str) -> list[str]:
    """The command lines of a page, continued lines joined, comments left out."""
    lines = []
    for body in fences(page, "bash", "console"):
        for line in body.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words:
                lines.append(shlex.join(words).replace("'|'", "|").replace("'>'", ">").replace("'<'", "<"))
    return lines


def own_files(page: str) -> dict[str, str]:
    """The configurations and programs of a page that give themselves a file name in their first line: `# name.yaml`."""
    found = {}
    for body in fences(page, "yaml", "python"):
        if name := re.match(r"# (\S+\.(?:yaml|py))\n", body):
            found[name[1]] = body
    return found


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_ins: Callable[[Path], None],
         no_own_parts: None) -> Path:
    """A folder with what the reader of the documents would have in it; commands run there."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(calibrate, "SECONDS", 0.0)
    stand_ins(tmp_path)
    made = splits(train=300, validation=30, test=30, seed=1)
    for name, (split, side) in TEXTS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(pair[side] + "\n" for pair in getattr(made, split)), encoding="utf-8")
    rows = [f"{'good' if 'the' in english else 'bad'}\t{english}" for english, _ in made.train]
    shutil.copy(next((tmp_path / "fjcanyue/wikipedia-zh-cn").iterdir()), tmp_path / "data/articles.json")
    (tmp_path / REVIEWS).write_text("\n".join(["label\ttext", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "data/questions.json").write_text(squad_of(documents({"train": 300}, 1)["train"]), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def toy(words: list[str]) -> list[str]:
    """A verb's words, with a training cut down to a moment, and nothing timed."""
    if words[0] == "ablate" and len(words) > 1:
        pieces = ["--tokenizer.vocab_size", "150"] if "sentencepiece" in words else []
        return [*words, *([] if "--dry-run" in words else ["--dry-run"]), *TOY_DATA, *pieces]
    if words[0] == "doctor" and words[1].endswith(".yaml"):  # whose pieces would be more than the text has
        return [*words, "--tokenizer.vocab_size", "150"]
    if words[0] not in ("demo", "train", "plan") or "--dry-run" in words or "--help" in words:
        return words
    name = "answers-demo" if words[:2] == ["demo", "answers"] else "demo" if words[0] == "demo" else words[1]
    if Path(name).is_dir():  # a run, which is a toy already
        return words
    mapping = read_recipe(name).mapping
    tokenizer = mapping.get("tokenizer", {})
    is_pieces = tokenizer.get("kind", "sentencepiece") == "sentencepiece"
    size = 150 + len(symbols_of(tuple(tokenizer.get("symbols", ()))))
    share = [] if "--data.validation_share" in words else ["--data.validation_share", "0.1"]
    data = (TOY_DATA if "generated" in mapping.get("data", {}) else
            share if "validation_share" in mapping.get("data", {}) else [])
    return [*words, *TOY, *data, *(["--tokenizer.vocab_size", str(size)] if is_pieces else []),
            *(["--no-calibration"] if words[0] == "plan" else [])]


@pytest.fixture
def servers() -> Iterator[Servers]:
    """Those that a page starts."""
    found = Servers()
    yield found
    found.stop()


def run_line(line: str, monkeypatch: pytest.MonkeyPatch, servers: Servers) -> None:
    """One line of the documents: `make target`, `curl …`, or `[echo text |] [NAME=value] pellucid … [< file] [> file]`;
    a server goes on until the next one."""
    if tuple(shlex.split(line)) in NOT_RUN:
        return
    given = b""
    for stage in line.split(" | "):
        words = shlex.split(stage)
        if setting := re.fullmatch(r"([A-Z_]+)=(.*)", words[0]):
            monkeypatch.setenv(*setting.groups())
            words = words[1:]
        target = words[words.index(">") + 1] if ">" in words else None
        if "<" in words:
            given = Path(words[words.index("<") + 1]).read_bytes()
        words = words[: min([words.index(sign) for sign in "<>" if sign in words], default=len(words))]
        program = words[0].removeprefix(".venv/bin/")
        if program == "make":
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            assert all(re.search(rf"^{word}:", makefile, re.MULTILINE) for word in words[1:]), line
        elif program == "python" and words[1:3] == ["-m", "pytest"]:
            assert all((ROOT / word).exists() for word in words[3:] if word.startswith("tests")), line
        elif program == "pip":
            check_extra(words)
        elif program == "curl":
            assert servers.curl(words), line
        elif program == "pellucid" and words[1] in ("serve", "play"):
            servers.start(words[1:])
        elif program == "echo":
            given = " ".join(words[1:]).encode() + b"\n"
        else:
            assert program == "pellucid", f"the tests do not know how to check: {line}"
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
            output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
            try:
                with contextlib.redirect_stdout(output):
                    code = main(toy(words[1:]))
            except SystemExit as stop:  # the argument parser's
                code = stop.code
            assert code == 0, line
            output.flush()
            given = output.buffer.getvalue()  # type: ignore[attr-defined]
            assert given or "--output" in words, f"{line} prints nothing"
            if target:
                Path(target).write_bytes(given)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page) and not english(page)])
def test_every_command_and_every_python_block_runs(page: str, desk: Path, monkeypatch: pytest.MonkeyPatch,
                                                   servers: Servers) -> None:
    for name, body in own_files(page).items():
        (desk / name).write_text(body, encoding="utf-8")
    for line in commands(page):
        with monkeypatch.context() as of_this_line:
            run_line(line, of_this_line, servers)
    for body in fences(page, "python"):
        exec(compile(body, page, "exec"), {})


@pytest.mark.parametrize("page", PAGES)
def test_every_configuration_and_study_shown_resolves(page: str, tmp_path: Path) -> None:
    for name, body in own_files(page).items():
        (tmp_path / name).write_text(body, encoding="utf-8")
    for body in fences(page, "yaml"):
        mapping = yaml.safe_load(body)
        if "factors" in mapping:
            assert cells_of(read_study(str(tmp_path / body.split()[1]), {}))
        else:
            from_mapping(mapping)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_in_the_running_text_is_one_that_exists(page: str) -> None:
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for span in re.findall(r"`((?:pellucid|make) [^`]+)`", text):
        program, verb, *rest = shlex.split(span)
        if program == "make":
            assert re.search(rf"^{verb}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), span
        elif not verb.startswith("-"):
            assert verb in VERBS, f"{page}: {span}"
            if verb == "ablate" and rest and rest[0].islower():
                assert rest[0] in study_names(), f"{page}: {span}"
            if verb == "train" and rest and re.fullmatch(r"[a-z0-9-]*[a-z0-9]", rest[0]) and rest[0][0] != "-":
                assert rest[0] in recipe_names(), f"{page}: {span}"


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    text = FENCE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in link and not link.startswith(("#", "mailto:")):
            assert ((ROOT / page).parent / link.split("#")[0]).exists(), f"{page}: {link}"


def tracked() -> list[Path]:
    """The files of the repository, and those that are about to be."""
    if shutil.which("git") and (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                                capture_output=True, check=False)
        if listed.returncode == 0:
            paths = (ROOT / name for name in listed.stdout.decode().split("\0") if name)
            return [path for path in paths if path.is_file()]
    tops = ("src", "tests", "docs", ".ci")
    return [path for top in tops for path in (ROOT / top).rglob("*") if path.is_file()] + list(ROOT.glob("*.*"))


def test_no_place_on_a_machine_and_no_assistant_is_named() -> None:
    places = re.compile(r"(?<![\w.~>])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me)(?:/|\b)")
    names = re.compile("|".join(["clau" + "de", "anthro" + "pic", "chat" + "gpt", "copi" + "lot", "open" + "ai"]), re.I)
    for path in tracked():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            assert not places.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
            assert not names.search(line), f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
