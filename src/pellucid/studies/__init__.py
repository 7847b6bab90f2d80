"""Which studies ship? YAML files beside this one, each with what it asks and what it costs."""

from pathlib import Path

from pellucid.recipes import Recipe, read_shipped

_FOLDER = Path(__file__).parent


def study_names() -> list[str]:
    """What ships, in alphabetical order."""
    return sorted(path.stem for path in _FOLDER.glob("*.yaml"))


def read_study_file(name: str) -> Recipe:
    """The study of this name, or the YAML file at this path, as it stands.

    Raises:
        ConfigError: neither; or the file is no YAML mapping.
    """
    return read_shipped(name, _FOLDER, "study")
