"""Sentences: statements, questions, relative and joined clauses, each made in both languages at once."""

from dataclasses import replace
from random import Random

from pellucid.data.generated.grammar import clauses, english, french, phrases
from pellucid.data.generated.grammar.lexicon import (
    ADULTS,
    ANIMALS,
    CHILDREN,
    FREQUENCY,
    PEOPLE,
    PRONOUNS,
    ROLES,
    VERBS,
    WHO,
)
from pellucid.data.generated.grammar.words import IL, ILS, JE, NOTHING, TENSES, Clause, Pair, Phrase

MAX_TOKENS = 16

_ANY = (
    *(clauses.transitive,) * 13, *(clauses.intransitive,) * 5, *(clauses.motion,) * 5, *(clauses.pronominal,) * 4,
    *(clauses.loving,) * 2, *(clauses.having,) * 2, *(clauses.being,) * 7,
)
_ACTION = (clauses.transitive, clauses.transitive, clauses.intransitive, clauses.motion)
_WHY = (*_ACTION, clauses.pronominal, clauses.being)
_REASONS = (
    ("sleep", "", "tired sick"), ("sing", "", "happy"), ("sing", "not", "sad sick tired"),
    ("work", "not", "tired sick rich"), ("sleep", "not", "sick sad"),
)
_FOUND = ANIMALS + ADULTS + ROLES + CHILDREN + clauses.PLACED
_ORDER = ("past", "present", "future")


def sentence(random: Random) -> Pair:
    """A random sentence with its only translation, of at most 16 tokens on either side."""
    while True:
        pair = _any(random)
        if pair.english.count(" ") < MAX_TOKENS and pair.french.count(" ") < MAX_TOKENS:
            return pair


def _any(random: Random) -> Pair:
    chance = random.random()
    if chance < 0.57:
        return stated(random.choice(_ANY)(random, "statement"))
    if chance < 0.62:
        return _fronted(random)
    if chance < 0.73:
        return _yes_or_no(random)
    if chance < 0.84:
        return _asked_about(random)
    if chance < 0.90:
        return _with_relative(random)
    return _joined(random) if chance < 0.96 else _existing(random)


def _yes_or_no(random: Random) -> Pair:
    """Does the boy sing ? Nobody asks what he is doing himself."""
    while True:
        clause = random.choice(_ANY)(random, "question")
        if clause.subject.person != JE:
            return asked(clause)


def stated(clause: Clause) -> Pair:
    """The clause as a statement."""
    return _pair(f"{english.statement(clause)} .", f"{french.statement(clause)} .", clause)


def asked(clause: Clause, english_word: str = "", french_word: str = "") -> Pair:
    """The clause as a question (est-ce que), perhaps after where, when, why or what."""
    return _pair(f"{english_word} {english.question(clause)} ?".lstrip(),
                 f"{french_word} est-ce que {french.statement(clause)} ?".lstrip(), clause)


def _pair(english_text: str, french_text: str, *parts: Clause) -> Pair:
    """A finished sentence with the derivation of its clauses."""
    words: dict[str, None] = {}
    relations: list[tuple[str, str]] = []
    for clause in parts:
        subject, complement = clause.subject, clause.complement
        relations += subject.relations + complement.relations
        if clause.verb.english == "be":
            relations += [(what, who) for who in subject.heads for what in complement.heads]
        else:
            verb = clause.verb.english
            words[verb] = None
            relations += [(who, verb) for who in subject.heads]
            relations += [(verb, what) for what in complement.heads]
        words |= dict.fromkeys(subject.heads + complement.heads)
    for one, other in relations:
        words[one] = words[other] = None
    return Pair(english_text, french.join(french_text), tuple(words), tuple(relations))


def _fronted(random: Random) -> Pair:
    """Yesterday , the boy sang."""
    clause = random.choice(_ACTION)(random, "statement", "time")
    if clause.negation == "never" or clause.adverb in FREQUENCY:
        return stated(clause)
    when = phrases.time(random, clause.tense, habitual=False)
    return _pair(
        f"{when.english} , {english.statement(clause)} .", f"{when.french} , {french.statement(clause)} .", clause)


def _asked_about(random: Random) -> Pair:
    """Where, when, why, who, what."""
    kind = random.choice(("where", "where is", "when", "why", "who", "what"))
    if kind == "who":
        clause = random.choice(_ANY)(random, "affirmation", "", WHO)
        return _pair(f"{english.statement(clause)} ?", f"{french.statement(clause)} ?", clause)
    if kind == "why":
        return asked(random.choice(_WHY)(random, "statement"), "why", "pourquoi")
    if kind == "when":
        return asked(random.choice(_ACTION)(random, "question", "time"), "when", "quand")
    if kind == "where":
        return asked(random.choice(_ACTION)(random, "question", "place"), "where", "où")
    tense = random.choice(TENSES)
    if kind == "what":
        frame = random.choice(clauses.ASKED_WHAT)
        place = random.choice(frame.places) if random.random() < 0.5 else NOTHING
        when = phrases.time(random, tense, habitual=False) if random.random() < 0.4 else NOTHING
        setting = phrases.together(place, when)
        return asked(Clause(phrases.subject(random), frame.verb, tense, setting=setting), "what", "que")
    lost = phrases.definite(random, random.choice(_FOUND))
    clause = Clause(lost, VERBS["be"], tense)
    where = f"où {french.being(tense, lost.person)} {lost.french} ?"
    return _pair(f"where {english.question(clause)} ?", where, clause)


def _with_relative(random: Random) -> Pair:
    """The boy who sings in the garden is happy."""
    someone = phrases.definite(random, random.choice(PEOPLE))
    inner = random.choice((clauses.transitive, clauses.intransitive))(random, "statement", "", someone)
    known = Phrase(f"{someone.english} who {english.predicate(inner)}",
                   f"{someone.french} qui {french.predicate(inner)}", someone.person, someone.feminine, someone.heads,
                   (*((who, inner.verb.english) for who in someone.heads), *_joins(inner)))
    while True:
        kind = random.choice((clauses.intransitive, clauses.motion, clauses.being, clauses.being))
        outer = kind(random, "statement", "time", known)
        if outer.verb is not inner.verb and _ORDER.index(inner.tense) <= _ORDER.index(outer.tense):
            return stated(outer)


def _joins(clause: Clause) -> tuple[tuple[str, str], ...]:
    return clause.complement.relations + tuple((clause.verb.english, what) for what in clause.complement.heads)


def _joined(random: Random) -> Pair:
    """Two clauses with and, but or because."""
    kind = random.choice(("and", "but", "because"))
    if kind == "because":
        return _because(random)
    first = clauses.intransitive(random, "affirmation", "place time")
    while kind == "but" and first.complement is not NOTHING:
        first = clauses.intransitive(random, "affirmation", "place time")
    other = phrases.subject(random)
    while other.english == first.subject.english:
        other = phrases.subject(random)
    if kind == "and":
        second = replace(clauses.intransitive(random, "affirmation", "place time", other), tense=first.tense)
        link = "et"
    else:
        second = Clause(other, first.verb, first.tense, "not")
        link = "mais"
    return _pair(f"{english.statement(first)} {kind} {english.statement(second)} .",
                 f"{french.statement(first)} {link} {french.statement(second)} .", first, second)


def _because(random: Random) -> Pair:
    """The girl sleeps because she is tired: the pronoun stands for the subject, so they is never elles."""
    subject = phrases.subject(random)
    while subject.person == ILS and subject.feminine:
        subject = phrases.subject(random)
    verb, negation, states = random.choice(_REASONS)
    tense = random.choice(TENSES)
    stand_in = next(
        p for p in PRONOUNS if p.person == subject.person and (p.feminine == subject.feminine or p.person != IL))
    state = clauses.agreeing(replace(stand_in, feminine=subject.feminine), random.choice(states.split()))
    first = Clause(subject, VERBS[verb], tense, negation)
    second = Clause(stand_in, VERBS["be"], tense, complement=state)
    return _pair(f"{english.statement(first)} because {english.statement(second)} .",
                 f"{french.statement(first)} parce que {french.statement(second)} .", first,
                 replace(second, subject=subject))


def _existing(random: Random) -> Pair:
    """There is a cat in the garden; there is no milk on the table; are there two men at the station ?"""
    noun = random.choice(_FOUND)
    mood = random.choice(("statement", "statement", "negation", "question"))
    tense, plural = random.choice(TENSES), bool(noun.english_plural) and random.random() < 0.5
    if mood == "negation":
        determiner = "no"
    elif plural:
        determiner = random.choice(("two", "three", "four", "many", "any" if mood == "question" else "some"))
    else:
        determiner = "a" if noun.english_plural else "any" if mood == "question" else "some"
    what = phrases.noun_phrase(determiner, noun, plural, mood=mood)
    spots = phrases.AROUND if noun in ANIMALS else phrases.PRESENT_PLACES if noun in PEOPLE else phrases.PUT_DOWN
    where = random.choice(spots)
    first, second = english.existence(tense, plural)
    there = f"{first} there {second}" if mood == "question" else f"there {first} {second}"
    mark = "?" if mood == "question" else "."
    avoir = french.existence(tense, mood == "negation")
    prefix = "est-ce que " if mood == "question" else ""
    return _pair(f"{there.strip()} {what.english} {where.english} {mark}",
                 f"{prefix}{avoir} {what.french} {where.french} {mark}", Clause(what, VERBS["be"], tense))
