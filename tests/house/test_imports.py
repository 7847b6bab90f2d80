"""Imports flow down, nothing runs in a circle, help stays light, and nothing that could run a stranger's code is
used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pellucid"
FILES = sorted(SOURCE.rglob("*.py"))

# The part of the house → what of ours it may import, itself aside; a part that is not listed here may import all but
# cli.
BELOW = {
    "errors": set(),
    "strict_reader": {"errors"},
    "config": {"errors", "strict_reader", "checks"}, "checks": {"errors", "config"},
    "files": {"errors"},
    "recipes": {"errors"}, "studies": {"errors", "recipes"},
    "compiled": {"nn", "files"},
    "nn": set(),
    "precision": set(),
    "model": {"nn", "config", "errors"},
    "data": {"config", "errors", "strict_reader", "files"},
    "decode": {"nn", "model", "data", "config", "errors", "precision", "compiled", "files"},
}
PLAIN = ("errors", "strict_reader", "config", "recipes", "studies")  # neither torch nor numpy
BANNED_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
BANNED_CALLS = {"eval", "exec", "compile", "__import__"}
BANNED_ATTRIBUTES = {("torch", "load"), ("torch", "save"), ("yaml", "unsafe_load"), ("yaml", "full_load"),
                     ("yaml", "load_all"), ("yaml", "Loader"), ("yaml", "UnsafeLoader"), ("yaml", "FullLoader"),
                     ("os", "system"), ("os", "popen")}


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path) for path in FILES}


def part_of(module: str) -> str:
    """pellucid.nn.masks → nn; pellucid.config → config; pellucid itself → an empty name."""
    return [*module.split("."), ""][1]


def imported(nodes: Iterator[ast.AST] | list[ast.stmt]) -> Iterator[tuple[str, int]]:
    """Every module that these nodes import, with its line; `from package import module` names the module."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead"
            for alias in node.names:
                longer = f"{node.module}.{alias.name}"
                yield longer if longer in MODULES else str(node.module), node.lineno


def at_import_time(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run when a module is imported, those under TYPE_CHECKING left out."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.dump(statement.test):
            continue
        if isinstance(statement, ast.If | ast.Try | ast.With | ast.ClassDef):
            yield from at_import_time(statement.body)


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_flow_down(path: Path) -> None:
    part = part_of(module_name(path))
    for name, line in imported(ast.walk(tree(path))):
        if name.split(".")[0] == "pellucid" and name != "pellucid":
            below = part_of(name)
            where = f"{path}:{line}: {part} imports {name}"
            assert below != "cli" or part in ("cli", "__main__"), where
            assert below == part or below in BELOW.get(part, {below}), where


@pytest.mark.parametrize("path", [p for p in FILES if part_of(module_name(p)) == "nn"], ids=module_name)
def test_the_ground_floor_stands_on_torch_alone(path: Path) -> None:
    outside = {name.split(".")[0] for name, _ in imported(ast.walk(tree(path)))} - set(sys.stdlib_module_names)
    assert outside <= {"torch", "pellucid"}


@pytest.mark.parametrize("path", [p for p in FILES if part_of(module_name(p)) in PLAIN], ids=module_name)
def test_plain_python_stays_plain(path: Path) -> None:
    outside = {name.split(".")[0] for name, _ in imported(ast.walk(tree(path)))} - set(sys.stdlib_module_names)
    assert outside <= {"pellucid", "yaml"}


def test_no_import_runs_in_a_circle() -> None:
    graph = {module_name(path): {name for name, _ in imported(list(at_import_time(tree(path).body)))
                                 if name in MODULES and name != module_name(path)} for path in FILES}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_nothing_imports_the_top_package_for_its_parts() -> None:
    """`pellucid` itself gives only its version; its other names are for users."""
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom) and node.module == "pellucid" and path.parent != SOURCE:
                names = {alias.name for alias in node.names}
                assert all(name == "__version__" or f"pellucid.{name}" in MODULES for name in names), path


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_nothing_can_run_code_from_data(path: Path) -> None:
    for node in ast.walk(tree(path)):
        where = f"{path}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert not {name.split(".")[0] for name, _ in imported([node])} & BANNED_MODULES, where
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert (node.value.id, node.attr) not in BANNED_ATTRIBUTES, where
        if isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS), where
            assert ast.unparse(node.func) != "yaml.load" or reads_safely(node, tree(path)), where
            for keyword in node.keywords:
                is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                assert not (keyword.arg in ("allow_pickle", "shell", "trust_remote_code") and is_true), where


def reads_safely(call: ast.Call, module: ast.Module) -> bool:
    """Whether a `yaml.load` is given a loader that the same file derives from yaml.SafeLoader."""
    safe = {node.name for node in module.body if isinstance(node, ast.ClassDef)
            and [ast.unparse(base) for base in node.bases] == ["yaml.SafeLoader"]}
    return len(call.args) == 2 and ast.unparse(call.args[1]) in safe


@pytest.mark.parametrize("statement", [
    "import pellucid",
    "from pellucid import ModelConfig, RunConfig, UserError",
    "from pellucid.cli import main; main(['--help'])",
    "from pellucid.cli import main; main(['recipes'])",
])
def test_what_is_light_loads_no_torch(statement: str) -> None:
    code = (f"import sys\n{statement}\n"
            "heavy = {'torch', 'numpy', 'matplotlib', 'sacrebleu', 'sentencepiece'} & set(sys.modules)\n"
            "sys.exit(f'loaded {heavy}' if heavy else 0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE.parent,
                          env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""}, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there() -> None:
    import pellucid

    for name in pellucid.__all__:
        assert getattr(pellucid, name) is not None
    with pytest.raises(AttributeError):
        _ = pellucid.no_such_name
