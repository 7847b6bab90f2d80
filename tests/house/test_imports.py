"""The house: imports flow down its rooms and never in a circle, C++ includes alike, help stays light, and nothing that
could run a stranger's code is used."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from yaml.constructor import FullConstructor, SafeConstructor

SOURCE = Path(__file__).resolve().parents[2] / "src" / "pellucid"
FILES = sorted(SOURCE.rglob("*.py"))
CPP = sorted(path for path in SOURCE.rglob("*") if path.suffix in (".h", ".cpp"))

# From the ground up: a file imports from its own room and from those below it.
ROOMS = ("errors", "language", "cache", "files", "config", "own", "recipes", "studies", "kernels", "nn", "precision",
         "model", "data", "retrieve", "search", "engine", "runs", "evaluate", "train", "inspection", "doctor", "plan",
         "ablate", "serve", "interop", "cli", "__main__", "")
# Of those below, a few are closed to these.
OPEN = {
    "language": set(),
    "cache": {"errors"},
    "files": {"errors", "cache"},
    "config": {"errors"},
    "own": {"errors", "config"},
    "recipes": {"errors", "config"},
    "studies": {"errors", "recipes"},
    "kernels": {"errors", "cache", "files"},
    "nn": {"kernels"},
    "precision": {"kernels"},
    "model": {"errors", "config", "own", "nn"},
    "data": {"errors", "cache", "files", "config"},
    "retrieve": {"errors", "cache", "files", "data"},
    "search": {"errors", "kernels"},
    "engine": {"errors", "cache", "files", "config", "kernels", "nn", "precision", "model", "search"},
    "__main__": {"cli"},
}
HEADERS = ("numbers.h", "parallel.h", "decoding.h", "products.h", "attending.h")  # of kernels/, from the ground up
PLAIN = ("errors", "language", "cache", "files", "config", "own", "recipes", "studies")  # neither torch nor numpy
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


def room_of(module: str) -> str:
    """pellucid.nn.dropout → nn; pellucid.files → files; pellucid itself, the door for users → an empty name."""
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


def ours(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Every module of this house that one imports, in a function and under TYPE_CHECKING too, or names in a string, as
    for `import_module`."""
    yield from ((name, line) for name, line in imported(ast.walk(module)) if name.split(".")[0] == "pellucid")
    yield from ((node.value, node.lineno) for node in ast.walk(module)
                if isinstance(node, ast.Constant) and node.value in MODULES - {"pellucid"})


def wrong_imports(name: str, module: ast.Module) -> list[str]:
    """What the module of this name imports from rooms that are not open to it."""
    room = room_of(name)
    below = OPEN.get(room, set(ROOMS[:ROOMS.index(room)]))
    return [f"{name}, line {line}: {room} imports {other}" for other, line in ours(module)
            if room_of(other) not in below | {room} and other != "pellucid"]


def check_order(graph: dict[str, set[str]]) -> None:
    """Raises CycleError, which names the circle, if there is one."""
    TopologicalSorter(graph).prepare()


def test_every_room_has_its_place() -> None:
    assert {room_of(module) for module in MODULES} == set(ROOMS)
    assert all((path.parent / "__init__.py").exists() for path in FILES)
    for room, below in OPEN.items():
        assert below <= set(ROOMS[:ROOMS.index(room)])


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_flow_down(path: Path) -> None:
    wrong = wrong_imports(module_name(path), tree(path))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(("name", "code"), [
    ("pellucid.files", "import pellucid.config"), ("pellucid.config.x", "from pellucid.files import read_json"),
    ("pellucid.kernels.x", "from pellucid import config"), ("pellucid.nn.x", "from pellucid.errors import UserError"),
    ("pellucid.model.x", "def f():\n    from pellucid.data import corpus"),
    ("pellucid.search.x", "if TYPE_CHECKING:\n    from pellucid.model.build import build"),
    ("pellucid.search.x", "from pellucid.engine.engine import Engine"),
    ("pellucid.engine.x", "class A:\n    from pellucid.data.corpus import Corpus"),
    ("pellucid.engine.x", "import pellucid.runs.texts"), ("pellucid.runs.x", "import pellucid.evaluate.meteor"),
    ("pellucid.runs.x", "import_module('pellucid.train.train')"), ("pellucid.ablate.x", "import pellucid.cli")])
def test_imports_that_do_not_are_found(name: str, code: str) -> None:
    assert wrong_imports(name, ast.parse(code))


def test_few_modules_lie_loose() -> None:
    assert len([path for path in SOURCE.glob("*.py") if not path.stem.startswith("__")]) <= 6


@pytest.mark.parametrize("path", [p for p in FILES if room_of(module_name(p)) == "nn"], ids=module_name)
def test_the_ground_floor_stands_on_torch_alone(path: Path) -> None:
    outside = {name.split(".")[0] for name, _ in imported(ast.walk(tree(path)))} - set(sys.stdlib_module_names)
    assert outside <= {"torch", "pellucid"}
    plumbing = re.findall(r"(?i)pointer|address|autograd|ctypes|data_ptr", path.read_text(encoding="utf-8"))
    assert not plumbing, f"{path}: {plumbing} belong to the basement"


@pytest.mark.parametrize("path", [p for p in FILES if room_of(module_name(p)) in PLAIN], ids=module_name)
def test_plain_python_stays_plain(path: Path) -> None:
    outside = {name.split(".")[0] for name, _ in imported(ast.walk(tree(path)))} - set(sys.stdlib_module_names)
    assert outside <= {"pellucid", "yaml"}


def test_no_import_runs_in_a_circle() -> None:
    check_order({module_name(path): {name for name, _ in ours(tree(path))} - {module_name(path)} for path in FILES})
    with pytest.raises(CycleError):
        check_order({"a": {"b"}, "b": {"c"}, "c": {"a"}})


@pytest.mark.parametrize("path", CPP, ids=lambda path: path.name)
def test_includes_flow_down(path: Path) -> None:
    """The headers lie in kernels/; each includes those below it, and the .cpp files, which nobody includes, any."""
    assert path.parent == SOURCE / "kernels"
    included = re.findall(r'^\s*#\s*include\s*"(.*)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(included) <= set(HEADERS[:HEADERS.index(path.name)] if path.suffix == ".h" else HEADERS)


def test_every_header_has_its_place() -> None:
    assert {path.name for path in CPP if path.suffix == ".h"} == set(HEADERS)


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
            assert ast.unparse(node.func) != "yaml.load" or reads_safely(node, path), where
            for keyword in node.keywords:
                is_true = isinstance(keyword.value, ast.Constant) and keyword.value.value is True
                assert not (keyword.arg in ("allow_pickle", "shell", "trust_remote_code") and is_true), where


def test_yaml_is_read_in_one_place() -> None:
    """By config/strict_yaml.py, which lets nothing exhaust the stack; others only write it."""
    for path in FILES:
        for node in ast.walk(tree(path)):
            assert not isinstance(node, ast.ImportFrom) or node.module != "yaml", path
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "yaml":
                assert node.attr == "safe_dump" or path.name == "strict_yaml.py", f"{path}:{node.lineno}"


def reads_safely(call: ast.Call, path: Path) -> bool:
    """Whether a `yaml.load` of this file is given a loader that makes nothing but plain data."""
    loader = getattr(importlib.import_module(module_name(path)), ast.unparse(call.args[1]))
    return issubclass(loader, SafeConstructor) and not issubclass(loader, FullConstructor)


HEAVY = "torch numpy matplotlib sacrebleu sentencepiece"
CONFIG = ", ".join(sorted(name for name in MODULES if room_of(name) == "config"))


@pytest.mark.parametrize(("statement", "heavy"), [
    ("import pellucid", HEAVY),
    ("from pellucid import ModelConfig, RunConfig, UserError", HEAVY),
    ("from pellucid.cli import main; main(['--help'])", HEAVY),
    ("from pellucid.cli import main; main(['recipes'])", HEAVY),
    (f"import {CONFIG}", HEAVY),
    ("import pellucid.kernels.compiled", HEAVY),
    ("import pellucid.engine.frozen", "torch"),
    ("from pellucid.cli.generate import Generate; from pellucid.cli.arguments import parse; "
     "parse(Generate, 'translate', ['run']); import pellucid.runs.run",
     "torch pellucid.cli.help importlib.metadata pellucid.data.splits"),
    ("from torch import nn; from pellucid.config import TrainConfig; "
     "from pellucid.train.optimizer import make_optimizer; "
     "make_optimizer(nn.Linear(2, 2), TrainConfig()).zero_grad()", "torch._dynamo sympy"),
])
def test_what_is_light_loads_nothing_heavy(statement: str, heavy: str) -> None:
    code = (f"import sys\n{statement}\n"
            f"loaded = set('{heavy}'.split()) & set(sys.modules)\n"
            "sys.exit(f'loaded {loaded}' if loaded else 0)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=SOURCE.parent,
                          env={"PYTHONPATH": str(SOURCE.parent), "PATH": ""}, check=False)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_there() -> None:
    import pellucid

    for name in pellucid.__all__:
        assert getattr(pellucid, name) is not None
    with pytest.raises(AttributeError):
        _ = pellucid.no_such_name
