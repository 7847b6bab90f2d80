"""Runs that ship: YAML files beside this one, each with what it costs and what it should score."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pellucid.errors import ConfigError

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Recipe:
    """A configuration to be, and what is said about it.

    Attributes:
        name: of the recipe, or of the file without its ending.
        about: title, cost and expected score, for people; may be empty.
        mapping: what the configuration reader gets.
    """

    name: str
    about: dict[str, str]
    mapping: dict[str, Any]


class _StrictLoader(yaml.SafeLoader):
    """YAML where a key stands once; plain YAML would take the last one and say nothing."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key.value} stands twice", key.start_mark)
            seen |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return super().construct_mapping(node, deep)


def recipe_names() -> list[str]:
    """What ships, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_recipe(name: str) -> Recipe:
    """The recipe of this name, or the YAML file at this path.

    Raises:
        ConfigError: neither; or the file is no YAML mapping.
    """
    return read_shipped(name, _FOLDER, "recipe")


def read_shipped(name: str, folder: Path, kind: str) -> Recipe:
    """The YAML file `name` of a `folder` of those that ship, or the one at this path; errors call it a `kind`.

    Raises:
        ConfigError: neither; or the file is no YAML mapping.
    """
    names = sorted(path.stem for path in folder.glob("*.yaml"))
    path = folder / f"{name}.yaml" if name in names else Path(name)
    try:
        mapping = yaml.load(path.read_text(encoding="utf-8"), _StrictLoader)
    except FileNotFoundError as error:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"there is no such {kind} or file", where=name,
                          fix=f"{hint}those that ship are {', '.join(names)}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("the file cannot be read", where=name, why=str(error)) from error
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise ConfigError("the file is no YAML", where=where,
                          why=str(getattr(error, "problem", error))) from error
    if not isinstance(mapping, dict):
        raise ConfigError("the file must be a mapping of keys to values", where=str(path))
    about = mapping.pop("about", {})
    if not isinstance(about, dict):
        raise ConfigError("about must be a mapping", where=str(path))
    return Recipe(path.stem, {str(key): str(value) for key, value in about.items()}, mapping)
