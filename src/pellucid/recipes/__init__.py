"""Which runs ship? YAML files beside this one, each with what it costs and what it should score."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pellucid.config.strict_yaml import read_yaml
from pellucid.errors import ConfigError, guess, no_utf8

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
        mapping = read_yaml(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError as error:
        raise ConfigError(f"there is no such {kind} or file", where=name,
                          fix=f"{guess(name, names)}those that ship are {', '.join(names)}") from error
    except IsADirectoryError as error:
        raise ConfigError(f"this is a folder, and a {kind} or file is wanted", where=name,
                          fix="name the YAML file; a run's folder would hold config.yaml") from error
    except OSError as error:
        raise ConfigError("the file cannot be read", where=name, why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise no_utf8(ConfigError, error, name) from error
    if not isinstance(mapping, dict):
        raise ConfigError("the file must be a mapping of keys to values", where=str(path))
    about = mapping.pop("about", {})
    if not isinstance(about, dict):
        raise ConfigError("about must be a mapping", where=str(path))
    return Recipe(path.stem, {str(key): str(value) for key, value in about.items()}, mapping)
