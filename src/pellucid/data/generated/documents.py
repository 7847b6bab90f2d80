"""Short documents that tell who did what where, in words of the bundled grammar, and questions on them.

Each sentence of a document has a person and a thing that no other one has, so that a question has one answer; one
question out of eight asks for a thing that the document does not speak of, and has none.
"""

from random import Random
from typing import NamedTuple

from pellucid.data.generated.grammar.clauses import ASKED_WHAT
from pellucid.data.generated.grammar.lexicon import PEOPLE
from pellucid.data.generated.grammar.phrases import SOMEWHERE
from pellucid.data.reading import Question, Reference

_SENTENCES = (3, 6)  # of a document, from and to
_QUESTIONS = 3  # on a document
_KINDS = ("who", "what", "where")
_PLACES = tuple(place.english for place in SOMEWHERE if " the " in place.english)


class _Fact(NamedTuple):
    """Somebody did something to a thing somewhere; `verb` has its base form and its past."""

    person: str
    verb: tuple[str, str]
    thing: str
    place: str

    @property
    def sentence(self) -> str:
        return f"The {self.person} {self.verb[1]} the {self.thing} {self.place}."


def documents(sizes: dict[str, int], seed: int) -> dict[str, list[tuple[str, str]]]:
    """So many pairs of a document and a question for each split; no document is in two."""
    random, seen = Random(f"{seed} documents"), set[str]()
    made: dict[str, list[tuple[str, str]]] = {name: [] for name in sizes}
    for name in sorted(sizes, key=("test", "validation", "train").index):  # which do not change with the last one
        while len(made[name]) < sizes[name]:
            facts = _facts(random)
            text = " ".join(fact.sentence for fact in facts)
            if text in seen:
                continue
            seen.add(text)
            kinds = random.sample([(place, kind) for place in range(len(facts)) for kind in _KINDS], _QUESTIONS)
            for place, kind in kinds[: sizes[name] - len(made[name])]:
                question = _question(random, facts, place, kind, f"{name}-{len(made[name]) + 1}")
                made[name].append((text, question.as_json()))
    return {name: made[name] for name in sizes}


def _facts(random: Random) -> list[_Fact]:
    facts, used = list[_Fact](), set[str]()
    wanted = random.randint(*_SENTENCES)
    while len(facts) < wanted:
        fact = _fact(random)
        if not used & {fact.person, fact.thing}:
            facts.append(fact)
            used |= {fact.person, fact.thing}
    return facts


def _fact(random: Random) -> _Fact:
    frame = random.choice(ASKED_WHAT)
    particle = f" {frame.verb.particle}" if frame.verb.particle else ""
    return _Fact(random.choice(PEOPLE).english, (frame.verb.english + particle, frame.verb.past + particle),
                 random.choice(frame.objects).english, random.choice(_PLACES))


def _question(random: Random, facts: list[_Fact], place: int, kind: str, name: str) -> Question:
    """Of one of the facts who did it, what it was, or where."""
    fact, before = facts[place], sum(len(one.sentence) + 1 for one in facts[:place])
    if kind == "who":
        text, answer = f"Who {fact.verb[1]} the {fact.thing}?", f"The {fact.person}"
    elif kind == "what":
        text, answer = f"What did the {fact.person} {fact.verb[0]}?", f"the {fact.thing}"
    else:
        text, answer = f"Where did the {fact.person} {fact.verb[0]} the {fact.thing}?", fact.place
    if random.random() < 1 / 8:
        other = _fact(random)
        while other.thing in {one.thing for one in facts}:
            other = _fact(random)
        return Question(name, f"Who {other.verb[1]} the {other.thing}?", ())
    return Question(name, text, (Reference(answer, before + fact.sentence.rindex(answer)),))
