"""Tasks whose data is made by a rule, so that what a model should learn is known exactly.

| task                | from                   | to                                               |
|---------------------|------------------------|--------------------------------------------------|
| copy                | numbers                | the same numbers                                 |
| reverse             | numbers                | the same, last first                             |
| sort                | numbers                | the same, smallest first                         |
| adjacent_duplicates | numbers                | label 1 if two equal ones stand side by side, or 0 |
| grammar             | an English sentence    | the French one (pellucid.data.generated.grammar)           |
| documents           | a short document       | a question on it (pellucid.data.generated.documents)       |

Numbers run from 1 to `symbols`, lengths evenly from `min_length` to `max_length`. No line of validation or test is in
another split. Validation and test do not change with the size of the training split.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from pellucid.config import Generated, Task
from pellucid.errors import ConfigError, guess

SplitPairs = dict[str, list[tuple[str, str]]]  # by split: (source, target), or (text, label), or (passage, question)
Numbers = tuple[int, ...]


def generate(generated: Generated, task: Task, seed: int) -> SplitPairs:
    """The pairs of the generated task, by split; the same for the same arguments.

    Raises:
        ConfigError: no such task, one of the other kind, or more different lines wanted than there are.
    """
    name = generated.task
    if name not in TASKS:
        raise ConfigError(f"there is no generated task {name}", where="data.generated.task",
                          fix=f"{guess(name, TASKS)}choose {', '.join(TASKS)}")
    kind = "classification" if name in CLASSIFICATION else "reading" if name in READING else "seq2seq"
    if task != kind:
        raise ConfigError(f"the generated task {name} is {kind}, and the run's task is {task}",
                          where="data.generated.task", fix=f"set task: {kind}")
    return TASKS[name](generated, seed)


def _transduction(rule: Callable[[Numbers], Sequence[int]]) -> Callable[[Generated, int], SplitPairs]:
    """The task of writing rule(numbers)."""
    def make(generated: Generated, seed: int) -> SplitPairs:
        numbers = _disjoint(generated, _sizes(generated), Random(seed), _any_numbers)
        return {name: [(_line(n), _line(rule(n))) for n in lines] for name, lines in numbers.items()}
    return make


def _adjacent_duplicates(generated: Generated, seed: int) -> SplitPairs:
    """Two halves: in one, every line has a pair of equal neighbours; in the other, none has."""
    if generated.min_length < 2:
        raise ConfigError("adjacent_duplicates needs two numbers a line", where="data.generated.min_length",
                          why=f"it is {generated.min_length}", fix="set it to 2 or more")
    positive = {name: size // 2 for name, size in _sizes(generated).items()}
    negative = {name: size - positive[name] for name, size in _sizes(generated).items()}
    without = _disjoint(generated, negative, Random(f"{seed} without"), _no_neighbours)
    with_one = _disjoint(generated, positive, Random(f"{seed} with"), _some_neighbours)
    made = {}
    for name in without:
        made[name] = [(_line(n), "0") for n in without[name]] + [(_line(n), "1") for n in with_one[name]]
        Random(f"{seed} {name}").shuffle(made[name])
    return made


def _grammar(generated: Generated, seed: int) -> SplitPairs:
    from pellucid.data.generated import grammar

    try:
        made = grammar.splits(train=generated.train, validation=generated.validation, test=generated.test, seed=seed)
    except ValueError as error:
        raise ConfigError(str(error), where="data.generated", fix="lower train, validation or test") from error
    return {"train": made.train, "validation": made.validation, "test": made.test}


def _documents(generated: Generated, seed: int) -> SplitPairs:
    from pellucid.data.generated.documents import documents

    return documents(_sizes(generated), seed)


TASKS: dict[str, Callable[[Generated, int], SplitPairs]] = {
    "copy": _transduction(lambda numbers: numbers),
    "reverse": _transduction(lambda numbers: numbers[::-1]),
    "sort": _transduction(sorted),
    "adjacent_duplicates": _adjacent_duplicates,
    "grammar": _grammar,
    "documents": _documents,
}
CLASSIFICATION = {"adjacent_duplicates"}
READING = {"documents"}  # the others are seq2seq


@dataclass(frozen=True)
class _Lines:
    """A set of lines: how one of a length is drawn, and how many of that length there are."""

    draw: Callable[[Random, int, int], Numbers]  # (random, symbols, length)
    count: Callable[[int, int], int]  # (symbols, length)


def _draw_any(random: Random, symbols: int, length: int) -> Numbers:
    return tuple(random.choices(range(1, symbols + 1), k=length))


def _draw_without(random: Random, symbols: int, length: int) -> Numbers:
    numbers = [random.randint(1, symbols)]
    while len(numbers) < length:
        step = random.randint(1, symbols - 1)  # to one of the others, each alike
        numbers.append((numbers[-1] - 1 + step) % symbols + 1)
    return tuple(numbers)


def _draw_with(random: Random, symbols: int, length: int) -> Numbers:
    numbers = list(_draw_any(random, symbols, length))
    if not any(a == b for a, b in itertools.pairwise(numbers)):
        i = random.randrange(length - 1)
        numbers[i + 1] = numbers[i]
    return tuple(numbers)


_any_numbers = _Lines(_draw_any, lambda s, n: s**n)
_no_neighbours = _Lines(_draw_without, lambda s, n: s * (s - 1) ** (n - 1))
_some_neighbours = _Lines(_draw_with, lambda s, n: s**n - s * (s - 1) ** (n - 1))


def _sizes(generated: Generated) -> dict[str, int]:
    return {"train": generated.train, "validation": generated.validation, "test": generated.test}


def _disjoint(generated: Generated, sizes: dict[str, int], random: Random, lines: _Lines) -> dict[str, list[Numbers]]:
    """Draws the splits. Test and validation hold different lines, at most half of those of any length, so that
    training, which may repeat itself, always has lines of every length left."""
    symbols, lengths = generated.symbols, range(generated.min_length, generated.max_length + 1)
    room = {length: lines.count(symbols, length) // 2 for length in lengths}
    held_out = sizes["validation"] + sizes["test"]
    if sum(room.values()) < held_out:
        raise ConfigError(f"data.generated wants {held_out:,} different lines for validation and test, and there are "
                          f"{sum(room.values()):,} to spare", where="data.generated",
                          why=f"{symbols} symbols and lengths {lengths[0]} to {lengths[-1]} make "
                              f"{sum(lines.count(symbols, n) for n in lengths):,} lines; half are kept for training",
                          fix="raise symbols or max_length, or lower validation and test")
    seen: set[Numbers] = set()
    made: dict[str, list[Numbers]] = {"train": [], "validation": [], "test": []}
    for name in ("test", "validation"):
        while len(made[name]) < sizes[name]:
            numbers = lines.draw(random, symbols, random.choice(lengths))
            if numbers not in seen and room[len(numbers)] > 0:
                room[len(numbers)] -= 1
                seen.add(numbers)
                made[name].append(numbers)
    while len(made["train"]) < sizes["train"]:
        length = random.choice(lengths)
        while (numbers := lines.draw(random, symbols, length)) in seen:
            pass
        made["train"].append(numbers)
    return made


def _line(numbers: Sequence[int]) -> str:
    return " ".join(map(str, numbers))
