"""Reading the command line: a verb's own flags by tyro, and any configuration key as ``--section.key value``."""

import dataclasses
import operator
import types
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from pellucid.cli.chinese import told
from pellucid.cli.help import NAMES, arguments_of, help_of
from pellucid.config import RunConfig, Split
from pellucid.config.effects import check_effects
from pellucid.config.mapping import from_mapping, override, to_mapping
from pellucid.config.reader import hints_of, key_of, merge, nest, unknown_key
from pellucid.config.strict_yaml import read_yaml
from pellucid.errors import ConfigError
from pellucid.recipes import read_recipe, recipe_names

Arguments = TypeVar("Arguments")

_VALUES = tyro.constructors.ConstructorRegistry()


@_VALUES.primitive_rule
def _value_or_nothing(info: tyro.constructors.PrimitiveTypeInfo) -> Any:
    """A value that may be left out has the same name as one that must be given."""
    is_union = typing.get_origin(info.type) in (typing.Union, types.UnionType)
    kind, *others = [m for m in typing.get_args(info.type) if m is not type(None)] if is_union else [info.type]
    if others or kind not in NAMES:
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1, metavar=NAMES[kind], instance_from_str=lambda words: kind(words[0]), str_from_instance=lambda value:
        [str(value)], is_instance=lambda value: value is None or isinstance(value, kind))


def parse(kind: type[Arguments], program: str, words: Sequence[str]) -> Arguments:
    """A verb's arguments; anything else on the line is an error (tyro prints it, and exits with 2), and --help is
    answered with help."""
    if not {"-h", "--help"}.isdisjoint(words):
        print(help_of(kind, program), end="", flush=True)
        raise SystemExit(0)
    found = tyro.cli(_described(kind), prog=program, args=list(words), config=(tyro.conf.FlagCreatePairsOff,),
                     registry=_VALUES)
    return kind(**vars(found))


def _described(kind: Any) -> Any:
    """The same fields with what help says of them, for errors in which tyro names one."""
    hints = typing.get_type_hints(kind, include_extras=True)
    return dataclasses.make_dataclass(kind.__name__, [
        (one.name, Annotated[_of_typing(hints[one.name]), tyro.conf.arg(
            help=told(one.said), help_behavior_hint="", metavar=one.value)], dataclasses.field(default=one.default))
        for one in arguments_of(kind)])


def _of_typing(hint: Any) -> Any:
    """``A | B``, which has its members only when this runs, as typing's Union: tyro checks that by itself, and for the
    other imports typeguard, a tenth of the start of a translation."""
    return operator.getitem(typing.Union, typing.get_args(hint)) if isinstance(hint, types.UnionType) else hint


def parse_with_overrides(kind: type[Arguments], program: str,
                         words: Sequence[str]) -> tuple[Arguments, dict[str, Any]]:
    """A verb's arguments, and the configuration keys given as ``--section.key value`` or ``--section.key=value``."""
    own, overrides = split_overrides(words)
    return parse(kind, program, own), overrides


def split_overrides(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The words that are a verb's own, and the overrides as a nested mapping.

    Raises:
        ConfigError: an unknown key (the nearest is named), or a key without a value.
    """
    own: list[str] = []
    overrides: dict[str, Any] = {}
    rest = list(words)
    known = dotted_keys(RunConfig)
    while rest:
        word = rest.pop(0)
        key, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or ("." not in key and key not in ("seed", "task")):
            own.append(word)
            continue
        if key not in known:
            raise unknown_key(key, list(known))
        if not equals:
            if not rest:
                raise ConfigError(f"--{key} needs a value", where=key)
            value = rest.pop(0)
        overrides = merge(overrides, nest(key, _value(value, known[key], key)))
    return own, overrides


def dotted_keys(kind: Any, prefix: str = "") -> dict[str, Any]:
    """Every key of the configuration, dotted, with its type; sections too, where they can be given whole."""
    keys: dict[str, Any] = {}
    for name, hint in hints_of(kind).items():
        section = next((m for m in (hint, *typing.get_args(hint)) if dataclasses.is_dataclass(m)), None)
        if section is None or section is Split:
            keys[prefix + key_of(name)] = hint
        if section is not None:
            keys |= dotted_keys(section, f"{prefix}{name}.")
    return keys


def _value(text: str, hint: Any, key: str) -> Any:
    """The text as YAML reads it; as it stands where the key takes text, but for a list of sources."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    texts = [m for m in members if m is str or typing.get_origin(m) is typing.Literal or dataclasses.is_dataclass(m)]
    is_list = Split in members and text.startswith("[") and text.endswith("]")
    if texts and int not in members and text not in ("null", "~") and not is_list:
        return text
    value = read_yaml(text, f"--{key}")
    return [value] if isinstance(value, str) and hint == tuple[str, ...] else value  # one of them needs no brackets


def run_folder(name: str) -> Path | None:
    """The run folder that a CONFIG names, if it names one; a recipe of that name goes first."""
    is_run = name not in recipe_names() and (Path(name) / "config.yaml").is_file()
    return Path(name) if is_run else None


def read_config(name: str, overrides: dict[str, Any]) -> RunConfig:
    """The configuration of a recipe, YAML file or run folder, with the overrides on top.

    Raises:
        ConfigError: no such recipe or file; what the strict reader refuses; see `override`; a flag without effect.
        CheckpointError: the run's configuration is damaged.
    """
    folder = run_folder(name)
    if folder is None:
        mapping = read_recipe(name).mapping
    else:
        from pellucid.runs.folder import read_config as config_of_run

        mapping = to_mapping(config_of_run(folder))
    config = from_mapping(override(mapping, overrides))
    check_effects(config, overrides)
    return config


def refuse_other_keys(program: str, overrides: dict[str, Any]) -> None:
    """Makes sure that a verb that decodes with a run is given keys of decoding alone.

    Raises:
        ConfigError: a key of another section.
    """
    other = sorted(set(overrides) - {"decode"})
    if other:
        section = overrides[other[0]]
        key = other[0] + (f".{next(iter(section))}" if isinstance(section, dict) else "")
        raise ConfigError(f"--{key} cannot be given here, only --decode keys", where=program,
                          why="it was decided when the run was trained", fix="see pellucid train --help")
