"""A file of at most 300 lines, a function of at most 60, at most 8 arguments (self not counted), no `**kwargs` between
ours. A kernel in Triton has as many arguments as it has strides: its language has no structures."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_LINES, MOST_FUNCTION_LINES, MOST_ARGUMENTS = 300, 60, 8


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(each).split("(")[0] == "triton.jit" for each in function.decorator_list)


def names_of_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    named = named[1:] if named[:1] in (["self"], ["cls"]) else named
    return named + [a.arg for a in (arguments.vararg, *arguments.kwonlyargs, arguments.kwarg) if a]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_files_and_functions_can_be_taken_in(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= MOST_LINES, f"{path} has {lines} lines"
    for function in functions(path):
        where = f"{path}:{function.lineno} {function.name}"
        assert function.end_lineno is not None
        length = function.end_lineno - function.lineno + 1
        assert length <= MOST_FUNCTION_LINES, f"{where} has {length} lines"
        given = [] if is_kernel(function) else names_of_arguments(function)
        assert len(given) <= MOST_ARGUMENTS, f"{where}: {given}"
        assert function.args.kwarg is None, f"{where} takes **{function.args.kwarg and function.args.kwarg.arg}"


@pytest.mark.parametrize("path", [*SOURCE.rglob("*.cpp"), *SOURCE.rglob("*.h")], ids=lambda path: path.name)
def test_lines_of_cpp_are_no_longer_than_those_of_python(path: Path) -> None:
    assert max(map(len, path.read_text(encoding="utf-8").splitlines())) <= 120


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not text or ast.get_docstring(ast.parse(text)), f"{path} has no docstring"


@pytest.mark.parametrize("path", [p for p in FILES if p.parent.name in ("nn", "model")],
                         ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_public_part_of_the_model_says_what_it_does(path: Path) -> None:
    for part in definitions(ast.parse(path.read_text(encoding="utf-8")).body):
        for each in [part, *(definitions(part.body) if isinstance(part, ast.ClassDef) else [])]:
            assert ast.get_docstring(each), f"{path}:{each.lineno} {each.name} has no docstring"


def definitions(body: list[ast.stmt]) -> list[ast.FunctionDef | ast.ClassDef]:
    """The public ones; `extra_repr` is torch's."""
    return [node for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)
            and not node.name.startswith("_") and node.name != "extra_repr"]
