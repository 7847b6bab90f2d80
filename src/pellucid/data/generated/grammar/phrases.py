"""Noun phrases, places and times: the pieces that clauses are filled with."""

from random import Random

from pellucid.data.generated.grammar import english, french
from pellucid.data.generated.grammar.lexicon import (
    ANIMALS,
    BESIDE_NOUN,
    CITIES,
    COUNTRIES,
    DAYS,
    INDOORS,
    NAMES,
    NOUNS,
    NUMBERS,
    PEOPLE,
    PLACES,
    POSSESSIVES,
    PRONOUNS,
)
from pellucid.data.generated.grammar.words import IL, ILS, JE, NOTHING, NOUS, TU, Adjective, Noun, Phrase

_UNOWNED = ("man", "woman", "king", "queen", "boy", "girl", "nurse", "actress")  # nobody says "my king"
_PRONOUNS = PRONOUNS + 2 * tuple(p for p in PRONOUNS if p.person in (JE, TU, NOUS))  # the forms only these have

# what may stand before a noun, the likelier the oftener; "own" is any possessive, "number" any number
_SUBJECT = (("the", "the", "the", "own", "own", "a", "this", "every"),
            ("the", "the", "number", "some", "many", "these", "own"))
_OBJECT = {
    "statement": (("the", "the", "a", "a", "own", "this"), ("the", "some", "number", "number", "many", "these", "own")),
    "negation": (("the", "the", "a", "own", "this"), ("the", "any", "any", "these", "own")),
    "question": (("the", "the", "a", "own", "this"), ("the", "any", "number", "these", "own"))}
_UNCOUNTED = {"statement": ("the", "some", "some", "own", "this"), "negation": ("the", "any", "any", "own", "this"),
              "question": ("the", "any", "any", "own", "this")}
_DEFINITE = (("the", "the", "own", "this"), ("the", "the", "own", "these"))
_HAD = {  # after have: "the" would need a story, and is left to the other verbs
    "statement": (("a",), ("number", "number", "many", "some")),
    "negation": (("a",), ("any",)),
    "question": (("a",), ("any", "number")),
}


def noun_phrase(
    determiner: str, noun: Noun, plural: bool = False, adjective: Adjective | None = None, mood: str = "statement"
) -> Phrase:
    """Both sides of a noun phrase. After a negation French says de for a, some and any: pas de pain."""
    if determiner in ("a", "any") and mood == "negation":
        article = "no"
    else:
        article = "some" if determiner == "any" else determiner
    return Phrase(english.noun_phrase(determiner, noun, plural, adjective),
                  french.noun_phrase(article, noun, plural, adjective), ILS if plural else IL, noun.feminine,
                  (noun.english,), ((adjective.english, noun.english),) if adjective else ())


def subject(random: Random, animal: bool = False, known: bool = False) -> Phrase:
    """Who does it: a pronoun, a name, a noun (definite if `known`), or two people."""
    if animal:
        return _described(random, random.choice(ANIMALS), _SUBJECT)
    kind = random.random()
    if kind < 0.5:
        return random.choice(_PRONOUNS)
    if kind < 0.59:
        return random.choice(NAMES)
    if kind < 0.63:
        return _couple(random)
    return _described(random, random.choice(PEOPLE), _DEFINITE if known else _SUBJECT)


def person(random: Random) -> Phrase:
    """Someone known: a name, or a noun with the, this or a possessive."""
    return random.choice(NAMES) if random.random() < 0.2 else definite(random, random.choice(PEOPLE))


def definite(random: Random, noun: Noun, plural: bool | None = None) -> Phrase:
    """A noun with the, this or a possessive, singular or plural as it falls out."""
    if plural is None:
        plural = bool(noun.english_plural) and random.random() < 0.4
    return noun_phrase(_determiner(random, _DEFINITE[plural], noun, plural), noun, plural)


def thing(random: Random, noun: Noun, mood: str = "statement") -> Phrase:
    """A noun as an object, often with an adjective, sometimes with an owner."""
    if not noun.english_plural:
        return _modified(random, _determiner(random, _UNCOUNTED[mood], noun, False), noun, False, mood)
    if noun.kind in ("thing", "work") and random.random() < 0.12:
        return owned(random, noun)
    return _described(random, noun, _OBJECT[mood], mood)


def possession(random: Random, noun: Noun, mood: str) -> Phrase:
    """A noun as what somebody has."""
    plural = random.random() < 0.45
    determiner = random.choice(_HAD[mood][plural])
    if determiner == "number":
        determiner = random.choice(NUMBERS)
    return _modified(random, determiner, noun, plural, mood)


def worn(random: Random, noun: Noun, mood: str) -> Phrase:
    """A garment as what somebody puts on."""
    return _modified(random, random.choice(("the", "a", "a", "this")), noun, False, mood)


def owned(random: Random, noun: Noun) -> Phrase:
    """The king 's hat: le chapeau du roi. An owner's plural is only ever men, women or children."""
    many = random.random() < 0.3
    if many:
        owner = noun_phrase("the", NOUNS[random.choice(("man", "woman", "child"))], plural=True)
    else:
        owner = random.choice(NAMES) if random.random() < 0.4 else definite(random, random.choice(PEOPLE), plural=False)
    plural = random.random() < 0.3
    bare = noun_phrase("the", noun, plural)
    return Phrase(f"{owner.english} 's {noun.english_plural if plural else noun.english}",
                  f"{bare.french} de {owner.french}", bare.person, bare.feminine, bare.heads,
                  ((owner.heads[0], noun.english),))


def _couple(random: Random) -> Phrase:
    """Two different people; one man is enough for a masculine."""
    if random.random() < 0.5:
        one, two = random.sample(NAMES, 2)
    else:
        first, second = random.sample(PEOPLE, 2)
        one, two = noun_phrase("the", first), noun_phrase("the", second)
    return Phrase(f"{one.english} and {two.english}", f"{one.french} et {two.french}", ILS,
                  one.feminine and two.feminine, one.heads + two.heads)


def _described(
    random: Random, noun: Noun, determiners: tuple[tuple[str, ...], tuple[str, ...]], mood: str = "statement"
) -> Phrase:
    plural = random.random() < 0.45
    return _modified(random, _determiner(random, determiners[plural], noun, plural), noun, plural, mood)


def _modified(random: Random, determiner: str, noun: Noun, plural: bool, mood: str) -> Phrase:
    adjectives = BESIDE_NOUN[noun.kind]
    adjective = random.choice(adjectives) if adjectives and random.random() < 0.36 else None
    return noun_phrase(determiner, noun, plural, adjective, mood)


def _determiner(random: Random, determiners: tuple[str, ...], noun: Noun, plural: bool) -> str:
    determiner = random.choice(determiners)
    if noun.kind == "kin":
        determiner = _kin_determiner(determiner, noun, plural)
    if determiner == "own":
        return "the" if noun.english in _UNOWNED else random.choice(POSSESSIVES)
    return random.choice(NUMBERS) if determiner == "number" else determiner


def _kin_determiner(determiner: str, noun: Noun, plural: bool) -> str:
    """Relatives belong to somebody: my aunt, the aunts, two aunts, but no "every aunt"."""
    if not plural:
        return "own"
    return "number" if determiner == "number" and noun.english not in ("father", "mother") else "the"


def _located(preposition: str, translation: str, nouns: str) -> tuple[Phrase, ...]:
    """In the kitchen, at the school: one place for each of these nouns."""
    places = (noun_phrase("the", NOUNS[noun]) for noun in nouns.split())
    return tuple(Phrase(f"{preposition} {place.english}", f"{translation} {place.french}") for place in places)


def _towns(preposition: str, town: str, country: str) -> tuple[Phrase, ...]:
    towns = tuple(Phrase(f"{preposition} {name}", f"{town} {nom}") for name, nom in CITIES)
    return towns + tuple(Phrase(f"{preposition} {name}", f"{country} {nom}") for name, nom in COUNTRIES)


_INDOORS = " ".join(noun.english for noun in INDOORS)
_PUBLIC = " ".join(noun.english for noun in PLACES)
_NEAR = _located("near", "près de", "house tree church school station hotel beach hospital museum door")
_FRONT = _located("in front of", "devant", "house school church hotel museum station")
_BEHIND = _located("behind", "derrière", "house tree church school car")
SOMEWHERE = (
    *_located("in", "dans", _INDOORS), *_located("at", "à", _PUBLIC), *_towns("in", "à", "en"),
    *_located("near", "près de", "house tree church station beach"),
    *_located("in front of", "devant", "house school hotel museum"),
)
ROOMS = (*_located("in", "dans", "kitchen bedroom house"), *_located("at", "à", "school office hotel hospital"))
SHOPS = (*_located("at", "à", "market market station airport museum"), *_towns("in", "à", "en"))
AROUND = (*_located("in", "dans", _INDOORS + " house"), *_located("under", "sous", "table tree bed"), *_NEAR, *_BEHIND)
PUT_DOWN = (
    *_located("on", "sur", "table bed chair") * 2, *_located("under", "sous", "table bed chair tree"),
    *_located("in", "dans", "kitchen bedroom house box car"), *_located("near", "près de", "door window bed"),
)
PRESENT_PLACES = (*_located("in", "dans", _INDOORS), *_located("at", "à", _PUBLIC), *_towns("in", "à", "en"), *_FRONT)
TOWARDS = (*_located("to", "à", _PUBLIC), *_located("to", "dans", "kitchen garden bedroom"), *_towns("to", "à", "en"))
FROM = (*_located("from", "de", _PUBLIC), *_located("from", "de", "kitchen garden forest"), *_towns("from", "de", "de"))
ARRIVED = (*_located("at", "à", _PUBLIC), *_towns("in", "à", "en"))
BOUND_FOR = _towns("for", "pour", "pour la")

_ON_DAYS = tuple(Phrase(f"on {day}s", f"le {jour}") for day, jour in DAYS)  # every monday: a habit
_ON_DAY = tuple(Phrase(f"on {day}", jour) for day, jour in DAYS)
_PAST = (Phrase("yesterday", "hier"), Phrase("last week", "la semaine dernière"), Phrase("this morning", "ce matin"))
_FUTURE = (Phrase("tomorrow", "demain"), Phrase("next week", "la semaine prochaine"), Phrase("tonight", "ce soir"))
_DAILY = (
    Phrase("every day", "tous les jours"), Phrase("in the morning", "le matin"), Phrase("in the evening", "le soir"),
)
_ONCE = {"present": (Phrase("today", "aujourd'hui"), Phrase("now", "maintenant")), "past": 2 * _PAST + _ON_DAY,
         "future": 2 * _FUTURE + _ON_DAY}
_HABIT = 2 * _DAILY + _ON_DAYS


def time(random: Random, tense: str, habitual: bool) -> Phrase:
    """When: each expression belongs to one tense, so that it tells "they read" apart from "they read"."""
    if tense == "present" and habitual and random.random() < 0.75:
        return random.choice(_HABIT)
    return random.choice(_ONCE[tense])


def together(*phrases: Phrase) -> Phrase:
    """Where and then when, either of them possibly nothing; content words are not collected."""
    said = [phrase for phrase in phrases if phrase is not NOTHING]
    if len(said) < 2:
        return said[0] if said else NOTHING
    return Phrase(" ".join(p.english for p in said), " ".join(p.french for p in said))
