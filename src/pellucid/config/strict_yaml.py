"""YAML as plain data: each key once, and nothing inside itself or deeper than people write.

Where pyyaml was built without libyaml a few texts are refused that are read elsewhere, as a tab behind a value.
"""

import re
from typing import TYPE_CHECKING, Any

import yaml

from pellucid.errors import ConfigError

NUMBER_OR_QUOTED = re.compile(r"""[+-]?[0-9]+|'.*'|".*"|""", re.DOTALL)  # no plain text, of what may be either
_DEEPEST = 32  # levels inside each other: many more exhaust the stack, here or where the value is used
if TYPE_CHECKING:
    _SafeLoader = yaml.SafeLoader
else:
    _SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml, far faster, where pyyaml was built with it


def read_yaml(text: str, where: str) -> Any:
    """The value that `text` holds; `where` is what errors call it.

    Raises:
        ConfigError: it is no YAML, or no plain data.
    """
    try:
        _check_depth(text)
        return yaml.load(text, _StrictLoader)
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # which libyaml lets pass, of half a surrogate
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{where} is no YAML", where=f"{where}:{mark.line + 1}" if mark else where,
                          why=str(getattr(error, "problem", error))) from error


def as_yaml(value: Any) -> str:
    """The value as YAML, for people; `read_yaml` gives it back."""
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return yaml.safe_dump(value, sort_keys=False) if "\x85" in text else text  # which would be read as an end of line


def _check_depth(text: str) -> None:
    """Raises YAMLError: values lie deeper than _DEEPEST, or it is no YAML.

    Before a value is made of them: libyaml does that in C, by a recursion that nobody can stop.
    """
    depth = 0
    for event in yaml.parse(text, _SafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            mark: Any = event.start_mark  # libyaml's is a class of its own, with the same attributes
            raise yaml.MarkedYAMLError(None, None, f"more than {_DEEPEST} levels lie inside each other", mark)


class _StrictLoader(_SafeLoader):
    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=True)  # which refuses a value inside itself
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as error:  # pyyaml's of `!!bool x`
            problem = f"{node.value!r:.60} is no {node.tag.rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(None, None, problem, node.start_mark) from error

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            is_plain = not key.tag.endswith((":merge", ":value"))  # << and =, of which pyyaml makes no values
            value = self.construct_object(key) if is_plain else key.value  # yes and true are one
            if value in seen:  # plain YAML would take the last one and say nothing
                raise yaml.MarkedYAMLError(None, None, f"the key {key.value} stands twice", key.start_mark)
            seen.add(value)
        return super().construct_mapping(node, deep)
