"""Short documents that tell who did what where, in words of the bundled grammar, and questions on them.

Each sentence of a document has a person and a thing that no other one has, so that a question has one answer. One
question out of four has none: it is about a fact that has a person or a thing in common with the document, and two out
of three of these questions name it. A search finds such passages: they have words of a question and do not answer it.
"""

from random import Random
from typing import NamedTuple

from pellucid.data.generated.grammar.clauses import ASKED_WHAT
from pellucid.data.generated.grammar.lexicon import PEOPLE
from pellucid.data.generated.grammar.phrases import SOMEWHERE
from pellucid.data.reading import Question, Reference

_SENTENCES = (3, 6)  # of a document, from and to
_QUESTIONS = 3  # on a document
_UNANSWERED = 0.25  # of them, about
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
    """Of one of the facts who did it, what it was, or where; or of none of them."""
    if random.random() < _UNANSWERED:
        return Question(name, _asked(_another(random, facts, kind), kind)[0], ())
    fact, before = facts[place], sum(len(one.sentence) + 1 for one in facts[:place])
    text, answer = _asked(fact, kind)
    return Question(name, text, (Reference(answer, before + fact.sentence.rindex(answer)),))


def _asked(fact: _Fact, kind: str) -> tuple[str, str]:
    """A question on a fact, and its answer."""
    if kind == "who":
        return f"Who {fact.verb[1]} the {fact.thing}?", f"The {fact.person}"
    if kind == "what":
        return f"What did the {fact.person} {fact.verb[0]}?", f"the {fact.thing}"
    return f"Where did the {fact.person} {fact.verb[0]} the {fact.thing}?", fact.place


def _another(random: Random, facts: list[_Fact], kind: str) -> _Fact:
    """A fact with the person or the thing of one of these, of which none of these tells."""
    told = {_asked(fact, kind)[0] for fact in facts}
    while True:
        other = _fact(random)
        is_near = any(other.person == fact.person or other.thing == fact.thing for fact in facts)
        if is_near and _asked(other, kind)[0] not in told:
            return other
