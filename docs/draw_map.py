"""Draws the map at the top of architecture.md from the code: `python docs/draw_map.py` (`--check` only compares).

Rooms and what they stand on are packages and their imports; a room's question is the first line of its docstring. The
routes follow calls, from `train.train.train` to weights and from `Run.generate` to text; what each decoder refuses is
what its code raises.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PAGE = Path(__file__).with_name("architecture.md")
SOURCE = Path(__file__).resolve().parents[1] / "src" / "pellucid"
TOLD = ("data", "model", "runs", "train")  # rooms whose steps are on the route to weights
WITHIN, DEEPEST = "train", 3  # the room that it walks through, and how many calls deep
BESIDE = {"journal", "flow", "model_card", "initialize", "tokens_per_second", "is_better", "Interrupted"}

Definition = ast.FunctionDef | ast.ClassDef


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def file_of(module: str) -> Path | None:
    """pellucid.train.loop → …/train/loop.py, if that is ours."""
    place = SOURCE.joinpath(*module.split(".")[1:]) if module.split(".")[0] == "pellucid" else SOURCE / "none"
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists()), None)


def rooms() -> dict[str, set[str]]:
    """Each room and the rooms that it imports from, the lowest first."""
    names = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    below = {name: {room_of(each) for path in (SOURCE / name).rglob("*.py") for each in imported(tree(path))}
             & set(names) - {name} for name in names}
    ordered: dict[str, set[str]] = {}
    while len(ordered) < len(names):
        free = [name for name in names if name not in ordered and below[name] <= set(ordered)]
        assert free, "rooms import each other in a circle"
        ordered[free[0]] = below[free[0]]
    return ordered


def imported(module: ast.AST) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    return module.split(".")[1] if module.startswith("pellucid.") else ""


def first_sentence(node: ast.AST) -> str:
    text = " ".join((ast.get_docstring(node) or "").split())
    return re.split(r"(?<=[.?!:;])\s(?=[A-Z])|$", text, maxsplit=1)[0].rstrip(".:;")


def draw_rooms() -> str:
    lines = ["| Question | Room | What is in it | Stands on |", "|---|---|---|---|"]
    table = rooms()
    for name in reversed(table):
        question, rest = re.match(r"([^?]*\?) (.*)", " ".join((ast.get_docstring(
            tree(SOURCE / name / "__init__.py")) or "").split())).groups()
        inside = re.split(r"(?<=[a-z)])\.( |$)", rest, maxsplit=1)[0]
        on = ", ".join(f"`{each}`" for each in table if each in table[name]) or "–"
        lines.append(f"| {question} | [`{name}`](../src/pellucid/{name}) | {inside} | {on} |")
    return "\n".join(lines)


def definitions(path: Path) -> dict[str, Definition]:
    """What a file defines, methods as Class.method."""
    found: dict[str, Definition] = {}
    for node in tree(path).body:
        if isinstance(node, Definition):
            found[node.name] = node
            if isinstance(node, ast.ClassDef):
                found |= {f"{node.name}.{each.name}": each for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


def names_in(path: Path) -> dict[str, tuple[Path, str]]:
    """Every name of ours that a file knows: where it is defined, and as what."""
    known = {name: (path, name) for name in definitions(path)}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and (home := file_of(node.module)):
            known |= {alias.asname or alias.name: (home, alias.name) for alias in node.names
                      if alias.name in definitions(home)}
    return known


def calls(path: Path, name: str) -> Iterator[tuple[Path, str]]:
    """What a function calls of ours, in the order of its lines; of a class, what its constructor calls."""
    node, known = definitions(path)[name], names_in(path)
    if isinstance(node, ast.ClassDef):
        node = definitions(path).get(f"{name}.__init__", node)
        if isinstance(node, ast.ClassDef):
            return
    owner = f"{name.split('.')[0]}." if "." in name or isinstance(definitions(path)[name], ast.ClassDef) else ""
    found = [each for each in ast.walk(node) if isinstance(each, ast.Call)]
    for call in sorted(found, key=lambda each: (each.end_lineno, each.end_col_offset)):
        function = call.func
        if isinstance(function, ast.Name) and function.id in known:
            yield known[function.id]
        elif isinstance(function, ast.Attribute):
            if owner and f"{owner}{function.attr}" in definitions(path):
                yield path, f"{owner}{function.attr}"
            elif len(homes := methods()[function.attr]) == 1 or (homes := annotated(node, function, homes)):
                yield homes[0]


@cache
def decoding() -> list[Path]:
    """The files that the ways to decode are made of."""
    return [*(SOURCE / "engine").glob("*.py"), *(SOURCE / "runs").glob("*.py")]


@cache
def methods() -> dict[str, list[tuple[Path, str]]]:
    """Where these files define each method."""
    found: dict[str, list[tuple[Path, str]]] = defaultdict(list)
    for path in decoding():
        for name in definitions(path):
            found[name.split(".")[-1]] += [(path, name)] if "." in name else []
    return found


def annotated(node: ast.AST, function: ast.Attribute, homes: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Those of the class that a parameter is said to be of."""
    kinds = {arg.arg: ast.unparse(arg.annotation) for arg in getattr(node, "args", ast.arguments([], [])).args
             if arg.annotation} if isinstance(node, ast.FunctionDef) else {}
    return [home for home in homes if home[1].split(".")[0] == kinds.get(ast.unparse(function.value))]


def walk(path: Path, name: str, depth: int, seen: set[tuple[Path, str]]) -> Iterator[str]:
    place = path.relative_to(SOURCE)
    said = first_sentence(definitions(path)[name])
    line = f"{'  ' * depth}{f'{place}: {name}':<{44 - 2 * depth}} {said}"
    yield line if len(line) <= 118 else line[:117].rsplit(" ", 1)[0] + " …"
    if depth == DEEPEST or place.parts[0] != WITHIN:
        return
    for home, called in calls(path, name):
        is_told = home.relative_to(SOURCE).parts[0] in TOLD and not {home.stem, called} & BESIDE
        if is_told and "." not in called and called[0] != "_" and (home, called) not in seen:
            seen.add((home, called))
            yield from walk(home, called, depth + 1, seen)


def draw_training() -> str:
    start = SOURCE / "train" / "train.py"
    return "```text\n" + "\n".join(walk(start, "train", 0, {(start, "train")})) + "\n```"


def refusals(path: Path, name: str, seen: set[tuple[Path, str]]) -> Iterator[str]:
    """Every reason that a function, or what it calls, may give against itself, in its own words."""
    if (path, name) in seen:
        return
    seen.add((path, name))
    node = definitions(path)[name]
    returns = ast.unparse(node.returns) if isinstance(node, ast.FunctionDef) and node.returns else ""
    for each in sorted(ast.walk(node), key=lambda one: getattr(one, "lineno", 0)):
        if isinstance(each, ast.Raise) and isinstance(each.exc, ast.Call) and ast.unparse(each.exc.func) == "Refusal":
            yield from texts(each.exc.args[0])
        elif isinstance(each, ast.Return | ast.Yield) and each.value and (
                "str" in returns.split(" | ") or returns == "Iterator[str]"):
            yield from texts(each.value)
    for home, called in calls(path, name):
        is_below = home == path or path.stem != "graphed_step"  # which knows no other way
        if home in decoding() and home.stem != "run" and is_below:  # to read a model refuses nothing
            yield from refusals(home, called, seen)


def texts(node: ast.AST) -> Iterator[str]:
    """The strings that an expression may be, their gaps as …"""
    if isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


def draw_decoding() -> str:
    path = SOURCE / "runs" / "decoder.py"
    (ways,) = [node.value for node in tree(path).body if isinstance(node, ast.AnnAssign)
               and ast.unparse(node.target) == "WAYS"]
    assert isinstance(ways, ast.Dict)
    lines = ["```text", "runs/run.py: Run.generate → runs/texts.py: answers → runs/decoder.py: Decoder, which takes",
             "the first way that does not refuse, and for a batch that is refused the next one:", ""]
    for number, (key, value) in enumerate(zip(ways.keys, ways.values, strict=True), start=1):
        assert isinstance(key, ast.Constant)
        assert isinstance(value, ast.Name)
        node, name = definitions(path)[value.id], value.id
        bases = [ast.unparse(base) for base in node.bases] if isinstance(node, ast.ClassDef) else []
        lines.append(f"{number}. {key.value}: {first_sentence(node)}")
        seen: set[tuple[Path, str]] = set()
        parts = [(path, f"{each}.{part}") for each in (*bases, name) for part in ("__init__", "search")]
        if "request.kept()" in ast.unparse(node):  # what Run gives in the place of kept weights
            parts.insert(0, (SOURCE / "runs" / "run.py", "Run._kept"))
        reasons = [reason for home, part in parts if part in definitions(home) for reason in refusals(home, part, seen)]
        lines += [f"     refused: {reason}" for reason in dict.fromkeys(reasons) if reason]
    return "\n".join([*lines, "", "→ hypotheses → tokenizers.target.decode → Generated", "```"])


DRAWINGS = {"rooms": draw_rooms, "training": draw_training, "decoding": draw_decoding}


def drawn(page: str) -> str:
    """The page with every drawing made anew."""
    for name, draw in DRAWINGS.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        page = f"{before}<!-- {name} -->\n{draw()}\n<!-- end -->" + rest.split("<!-- end -->", 1)[1]
    return page


if __name__ == "__main__":
    now = PAGE.read_text(encoding="utf-8")
    if "--check" in sys.argv:
        sys.exit(0 if drawn(now) == now else "architecture.md is not as the code is: run python docs/draw_map.py")
    PAGE.write_text(drawn(now), encoding="utf-8")
