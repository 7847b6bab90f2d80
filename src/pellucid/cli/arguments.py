"""Reading the command line: a verb's own flags by argparse, and any configuration key as ``--section.key value``."""

import argparse
import dataclasses
import itertools
import shlex
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pellucid.cli.fields import Argument, arguments_of
from pellucid.config import RunConfig, Split
from pellucid.config.effects import check_effects
from pellucid.config.mapping import from_mapping, override, to_mapping
from pellucid.config.reader import hints_of, key_of, merge, nest, unknown_key
from pellucid.config.strict_yaml import NUMBER_OR_QUOTED, read_yaml
from pellucid.errors import ConfigError, guess
from pellucid.recipes import read_recipe, recipe_names

Arguments = TypeVar("Arguments")


def parse(kind: type[Arguments], program: str, words: Sequence[str]) -> Arguments:
    """A verb's arguments; --help is answered with help.

    Raises:
        ConfigError: a word that the verb does not take (the nearest flag is named), or one that is missing.
    """
    end = list(words).index("--") if "--" in words else len(words)  # behind it no word is a flag
    if not {"-h", "--help"}.isdisjoint(words[:end]):
        from pellucid.cli.help import help_of

        print(help_of(kind, program), end="", flush=True)
        raise SystemExit(0)
    arguments = {one.called: one for one in arguments_of(kind)}
    try:
        found, others = _flags(arguments).parse_known_args([_hyphenated(word, arguments) for word in words[:end]])
    except argparse.ArgumentError as error:
        raise _refusal(f"{error.argument_name}: {error.message}", program, kind,
                       arguments[str(error.argument_name)]) from None
    if unknown := next((word for word in others if word.startswith("-") and word[1:2].strip("0123456789. ")), None):
        raise _unknown(unknown.partition("=")[0], program, arguments)
    given = vars(found) | _placed([*others, *words[end + 1:]], program, arguments)
    if missing := next((one for one in arguments.values() if one.is_needed and one.name not in given), None):
        raise _refusal(f"{missing.called} is missing", program, kind, missing)
    return kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})


def _flags(arguments: Mapping[str, Argument]) -> argparse.ArgumentParser:
    """What reads the flags. What is left out stays out: the dataclass knows its defaults."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False,
                                     argument_default=argparse.SUPPRESS)
    for one in arguments.values():
        if one.kind is bool:
            parser.add_argument(one.called, action="store_true")
        elif not one.is_place:
            many: dict[str, Any] = {"action": "append"} if one.is_repeated else {}
            if one.is_list and not one.is_repeated:
                many = {"action": "extend", "nargs": "+"}
            parser.add_argument(one.called, type=_path if one.kind is Path else one.kind, choices=one.choices or None,
                                **many)
    return parser


def _placed(words: list[str], program: str, arguments: Mapping[str, Argument]) -> dict[str, Any]:
    """What the other words are, by their places."""
    given: dict[str, Any] = {}
    for one in arguments.values():
        if one.is_place and (words or one.is_list):
            mine, words = (words, []) if one.is_list else (words[:1], words[1:])
            if one.kind is Path and "" in mine:
                raise ConfigError(f"{one.called} is empty", where=program, fix=f"see {program} --help")
            given[one.name] = [one.kind(word) for word in mine] if one.is_list else one.kind(mine[0])
    if words:
        fix = f"see {program} --help"
        if "QUESTION" in arguments:
            fix = "put the whole question in quotes"
        elif "--input" in arguments:
            fix = f"texts are lines of standard input or of --input: echo {shlex.quote(words[0])} | {program} RUN"
        raise ConfigError(f"{words[0]!r} is one word too many", where=program, fix=fix)
    return given


def _path(text: str) -> Path:
    """An empty one would be the current folder, which nobody means who has an empty variable."""
    if not text:
        raise argparse.ArgumentTypeError("it is empty")
    return Path(text)


def _hyphenated(word: str, arguments: Mapping[str, Argument]) -> str:
    """--beam_size is --beam-size."""
    flag, equals, value = word.partition("=")
    return flag.replace("_", "-") + equals + value if flag.replace("_", "-") in arguments else word


def _refusal(what: str, program: str, kind: Any, one: Argument) -> ConfigError:
    """A mistake about an argument, with what help says of it."""
    from pellucid.cli.chinese import told
    from pellucid.cli.help import said_of

    return ConfigError(what, where=program, fix=f"{one.shown}: {told(said_of(kind)[one.name])}; see {program} --help")


def _unknown(flag: str, program: str, arguments: Mapping[str, Argument]) -> ConfigError:
    return ConfigError(f"{flag} is not known here", where=program,
                       fix=guess(flag, arguments).rstrip() or f"see {program} --help")


def parse_with_overrides(kind: type[Arguments], program: str,
                         words: Sequence[str]) -> tuple[Arguments, dict[str, Any]]:
    """A verb's arguments, and the configuration keys given as ``--section.key value`` or ``--section.key=value``."""
    own, overrides = split_overrides(words)
    _refuse_short_keys(own, program, kind)
    return parse(kind, program, own), overrides


def _refuse_short_keys(words: Sequence[str], program: str, kind: Any) -> None:
    """Names the keys that are meant by --learning_rate and the like."""
    flags = {one.called for one in arguments_of(kind)}
    for word in itertools.takewhile(lambda word: word != "--", words):
        flag = word.partition("=")[0].replace("_", "-")
        name = flag.removeprefix("--").replace("-", "_")
        meant = [f"--{key}" for key in dotted_keys(RunConfig) if key.rpartition(".")[2] == name]
        if word.startswith("--") and meant and flag not in flags:
            raise ConfigError(f"there is no flag {word.partition('=')[0]} here", where=program,
                              fix=f"say {' or '.join(meant)}")


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
        if word == "--":
            return [*own, word, *rest], overrides
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
    """The text as YAML reads it; as it stands where the key takes text, but for a list of sources, and, where it takes
    a number as well, for a whole number and what is quoted: a column may be called no, or 1."""
    members = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    texts = [m for m in members if m is str or typing.get_origin(m) is typing.Literal or dataclasses.is_dataclass(m)]
    is_list = Split in members and text.startswith("[") and text.endswith("]")
    is_number = int in members and NUMBER_OR_QUOTED.fullmatch(text)
    if texts and text not in ("null", "~") and not is_list and not is_number:
        return text
    value = read_yaml(text, f"--{key}")
    return [value] if isinstance(value, str) and hint == tuple[str, ...] else value  # one of them needs no brackets


def run_folder(name: str) -> Path | None:
    """The run folder that a CONFIG names, if it names one; a recipe of that name goes first."""
    is_run = name and name not in recipe_names() and (Path(name) / "config.yaml").is_file()
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
