"""Clauses: which subjects do what, to what, where and when, so that sentences mean something."""

from dataclasses import dataclass
from random import Random
from typing import final

from pellucid.data.generated.grammar import english, french, phrases
from pellucid.data.generated.grammar.lexicon import (
    ADJECTIVES,
    AFTER_BE,
    ANIMALS,
    CHILDREN,
    COMPARED,
    DISHES,
    DRINKS,
    FLOWERS,
    FREQUENCY,
    FRUIT,
    MANNER,
    NOUNS,
    OBJECT_PRONOUNS,
    PEOPLE,
    PLANTS,
    SOUP,
    THINGS,
    VERBS,
    WORKS,
)
from pellucid.data.generated.grammar.words import ILS, JE, NOTHING, NOUS, TENSES, TU, Adverb, Clause, Noun, Phrase, Verb


def _named(nouns: str) -> tuple[Noun, ...]:
    return tuple(NOUNS[noun] for noun in nouns.split())


@final
@dataclass(frozen=True, slots=True)
class Frame:
    """A verb with the objects that make sense; `habit`: it may be done every day; `single`: it is put on."""

    verb: Verb
    objects: tuple[Noun, ...]
    animal: bool = False
    habit: bool = True
    single: bool = False
    places: tuple[Phrase, ...] = phrases.SOMEWHERE


_READABLE = _named("book letter newspaper story poem")
_CHOSEN = _named("book film song hat dress coat shirt cake car house flower chair computer")
_BOUGHT = _named("book house car hat dress coat shirt table bed chair computer horse dog cow hen")
_LOST = _named("key book letter hat coat shirt dress box newspaper computer house")
_VISIBLE = PEOPLE + ANIMALS + THINGS + PLANTS + FLOWERS
FRAMES = 2 * (
    Frame(VERBS["eat"], DISHES + SOUP + FRUIT), Frame(VERBS["drink"], DRINKS), Frame(VERBS["read"], _READABLE),
    Frame(VERBS["write"], _named("book letter story poem song")),
    Frame(VERBS["take"], _named("book letter newspaper key box hat coat apple orange chair car"), habit=False),
    Frame(VERBS["open"], _named("door window box letter book"), places=phrases.ROOMS),
    Frame(VERBS["choose"], _CHOSEN, habit=False, places=phrases.SHOPS),
    Frame(VERBS["put"], _named("hat dress coat shirt"), single=True, places=phrases.ROOMS),
    Frame(VERBS["make"], DRINKS[2:4] + SOUP + _named("bread cheese cake dress"), places=phrases.ROOMS)) + (
    Frame(VERBS["see"], _VISIBLE, habit=False),
    Frame(VERBS["buy"], DISHES + DRINKS + FRUIT + FLOWERS, places=phrases.SHOPS),
    Frame(VERBS["buy"], _BOUGHT, habit=False, places=phrases.SHOPS),
    Frame(VERBS["look"], _LOST + ANIMALS, habit=False),
    Frame(VERBS["watch"], ANIMALS + CHILDREN + FLOWERS + _named("film film film tree tree"), habit=False),
    Frame(VERBS["sing"], _named("song")),
)
_ANIMAL_FRAMES = (Frame(VERBS["eat"], _named("bread meat cheese rice apple tomato egg"), animal=True),
                  Frame(VERBS["drink"], _named("milk water"), animal=True),
                  Frame(VERBS["see"], PEOPLE + ANIMALS, animal=True, habit=False),
                  Frame(VERBS["look"], PEOPLE + ANIMALS, animal=True, habit=False))
ASKED_WHAT = tuple(frame for frame in FRAMES if not frame.single)
_LOVED = DISHES + DRINKS + SOUP + FRUIT + ANIMALS + FLOWERS + PLANTS + _named("book film song story poem car")
_HAD = ANIMALS + _BOUGHT + _LOST + _named("brother sister friend child book newspaper")
_PERSONAL = tuple(VERBS[verb] for verb in ("see", "look", "love", "watch"))
_UNLIKELY = {"present": (), "past": ("french",), "future": ("french", "young", "tall")}
_MOVING = (("go", phrases.TOWARDS), ("come", phrases.FROM), ("arrive", phrases.ARRIVED), ("leave", phrases.BOUND_FOR))
_TOLD = ("book", "letter", "story", "poem")
PLACED = _named("book letter newspaper key hat coat dress shirt box") + FRUIT + _named("bread cheese milk coffee")
_PROFESSIONS = _named("doctor teacher")
_COMPARABLE = {"animal": ANIMALS, "thing": THINGS, "work": WORKS, "plant": _named("house car")}


def _negation(random: Random, mood: str) -> str:
    """Not in one statement out of five, never in one out of twenty; questions and affirmations go without."""
    chance = random.random()
    return "" if mood != "statement" or chance > 0.25 else "not" if chance < 0.2 else "never"


def _frequency(random: Random, negation: str, omit: str) -> Adverb | None:
    return random.choice(FREQUENCY) if not negation and not omit and random.random() < 0.08 else None


def _mood(negation: str, mood: str) -> str:
    return "negation" if negation else "question" if mood == "question" else "statement"


def _setting(
    random: Random, tense: str, habit: bool, chance: float, omit: str, places: tuple[Phrase, ...] = phrases.SOMEWHERE
) -> Phrase:
    """A place, a time (with this chance), both or neither."""
    place = random.choice(places) if "place" not in omit and random.random() < 0.25 else NOTHING
    timed = "time" not in omit and random.random() < chance
    return phrases.together(place, phrases.time(random, tense, habit) if timed else NOTHING)


def transitive(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody eats an apple in the kitchen."""
    animal = subject is None and random.random() < 0.1
    frame = random.choice(_ANIMAL_FRAMES if animal else FRAMES)
    verb, tense, negation = frame.verb, random.choice(TENSES), _negation(random, mood)
    if negation == "never" and (not frame.habit or verb.english == verb.past):
        negation = "not"
    noun = random.choice(frame.objects)
    if noun in PEOPLE:
        target = phrases.person(random)
    elif frame.single:
        target = phrases.worn(random, noun, _mood(negation, mood))
    else:
        target = phrases.thing(random, noun, _mood(negation, mood))
    if verb.english in ("read", "write") and noun.english in _TOLD and random.random() < 0.3:
        target = _addressed(target, phrases.person(random))
    someone = subject or phrases.subject(random, animal)
    adverb = _frequency(random, negation, omit) if frame.habit and verb.english != verb.past else None
    chance = 0.0 if adverb or animal or negation == "never" else 0.32
    if english.ambiguous(verb, someone.person, tense, negation):
        chance = 1.0
    setting = NOTHING if animal else _setting(random, tense, frame.habit, chance, omit, frame.places)
    return Clause(someone, verb, tense, negation, adverb, None, target, setting)


def _addressed(target: Phrase, reader: Phrase) -> Phrase:
    """A letter to the king: une lettre au roi."""
    return Phrase(f"{target.english} to {reader.english}", f"{target.french} à {reader.french}",
                  heads=target.heads + reader.heads, relations=target.relations)


def intransitive(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody sleeps, sings, works, speaks to someone, talks about something."""
    verb = VERBS[random.choice(("sleep", "sing", "work", "speak", "talk"))]
    tense, negation = random.choice(TENSES), _negation(random, mood)
    animal = subject is None and verb.english == "sleep" and random.random() < 0.35
    complement, adverb = NOTHING, _frequency(random, negation, omit)
    if verb.english == "speak":
        complement = phrases.person(random)
    elif verb.english == "talk":
        complement = phrases.definite(random, random.choice(WORKS + ANIMALS + PEOPLE))
    elif adverb is None and negation != "never" and random.random() < 0.25:
        adverb = random.choice(MANNER)
    chance = 0.0 if negation == "never" or adverb in FREQUENCY else 0.32
    if animal and random.random() < 0.6:
        setting = random.choice(phrases.AROUND)
    else:
        setting = _setting(random, tense, True, chance, omit)
    someone = subject or phrases.subject(random, animal)
    return Clause(someone, verb, tense, negation, adverb, None, complement, setting)


def motion(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody goes, comes, arrives, leaves: the verbs that take être. "place" omitted leaves only going."""
    name, places = random.choice(_MOVING) if "place" not in omit else ("go", ())
    tense, negation = random.choice(TENSES), _negation(random, mood)
    adverb = _frequency(random, negation, omit) if name in ("go", "come") else None
    timed = "time" not in omit and adverb is None and negation != "never" and random.random() < 0.4
    bare = not places or (timed and name in ("arrive", "leave") and random.random() < 0.5)
    place = NOTHING if bare else random.choice(places)
    when = phrases.time(random, tense, True) if timed else NOTHING
    someone = subject or phrases.subject(random)
    return Clause(someone, VERBS[name], tense, negation, adverb, None, NOTHING, phrases.together(place, when))


def pronominal(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody sees her: la voit, l' a vue. Nobody sees himself here."""
    tense, negation = random.choice(TENSES), _negation(random, mood)
    someone = subject or phrases.subject(random)
    pronoun = random.choice(OBJECT_PRONOUNS)
    while (someone.person in (JE, NOUS) and pronoun.person in (JE, NOUS)) or someone.person == pronoun.person == TU:
        pronoun = random.choice(OBJECT_PRONOUNS)
    verb = random.choice(_PERSONAL)
    loves = verb.english == "love"
    if loves and negation == "never":
        negation = "not"
    setting = NOTHING if loves else _setting(random, tense, False, 0.0 if negation else 0.32, omit)
    return Clause(someone, verb, tense, negation, None, pronoun, NOTHING, setting)


def loving(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody loves bread (le pain), cats (les chats), or my sister."""
    noun = random.choice(_LOVED)
    if random.random() < 0.3:
        loved = phrases.person(random)
    else:
        loved = phrases.noun_phrase("", noun, bool(noun.english_plural))
    someone, negation = subject or phrases.subject(random), "not" if _negation(random, mood) else ""
    return Clause(someone, VERBS["love"], random.choice(TENSES), negation, complement=loved)


def having(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody has a dog; n' a pas de chien."""
    negation = _negation(random, mood)
    negation = "not" if negation else ""
    owned = phrases.possession(random, random.choice(_HAD), _mood(negation, mood))
    return Clause(subject or phrases.subject(random), VERBS["have"], random.choice(TENSES), negation, complement=owned)


def being(random: Random, mood: str, omit: str = "", subject: Phrase | None = None) -> Clause:
    """Somebody or something is old, older than another, a doctor, or somewhere."""
    tense, negation = random.choice(TENSES), "not" if _negation(random, mood) == "not" else ""
    if subject is None and random.random() < 0.35:
        return _thing_being(random, tense, negation)
    someone = subject or phrases.subject(random, known=True)
    chance = random.random()
    setting = NOTHING
    if chance < 0.5:
        complement = quality(random, someone, "person", tense)
        if "time" not in omit and random.random() < 0.15 and complement.heads[0] in ("happy", "sad", "sick", "tired"):
            setting = phrases.time(random, tense, False)
    elif chance < 0.7:
        complement = compared(random, someone, "person", tense)
    elif chance < 0.78:
        complement = profession(random, someone)
    else:
        complement = NOTHING
        setting = random.choice(phrases.PRESENT_PLACES)
    return Clause(someone, VERBS["be"], tense, negation, None, None, complement, setting)


def _thing_being(random: Random, tense: str, negation: str) -> Clause:
    noun = random.choice(ANIMALS + FRUIT + WORKS + THINGS + PLANTS + FLOWERS + DISHES + DRINKS + SOUP)
    thing = phrases.definite(random, noun)
    chance = random.random()
    if chance < 0.25 and (noun in PLACED or noun in ANIMALS):
        place = random.choice(phrases.AROUND if noun in ANIMALS else phrases.PUT_DOWN)
        return Clause(thing, VERBS["be"], tense, negation, setting=place)
    if chance > 0.65 and noun.kind in _COMPARABLE:
        return Clause(thing, VERBS["be"], tense, negation, complement=compared(random, thing, noun.kind, tense))
    return Clause(thing, VERBS["be"], tense, negation, complement=quality(random, thing, noun.kind, tense))


def quality(random: Random, subject: Phrase, kind: str, tense: str) -> Phrase:
    """An adjective agreeing with the subject, now and then with very; nobody will be young, or was french."""
    word = random.choice(AFTER_BE[kind]).english
    while word in _UNLIKELY[tense]:
        word = random.choice(AFTER_BE[kind]).english
    return agreeing(subject, word, word != "french" and random.random() < 0.2)


def agreeing(subject: Phrase, word: str, very: bool = False) -> Phrase:
    form = french.agree(ADJECTIVES[word], subject.feminine, subject.person >= NOUS)
    return Phrase(f"very {word}" if very else word, f"très {form}" if very else form, heads=(word,))


def compared(random: Random, subject: Phrase, kind: str, tense: str) -> Phrase:
    """Older than the king: plus vieux que le roi."""
    adjective = random.choice(COMPARED[kind])
    while tense != "present" and adjective.english in ("old", "young") and kind == "person":
        adjective = random.choice(COMPARED[kind])
    other = _another(random, kind)
    while other.heads[0] in subject.heads:
        other = _another(random, kind)
    form = french.agree(adjective, subject.feminine, subject.person >= NOUS)
    return Phrase(f"{adjective.comparative} than {other.english}", f"plus {form} que {other.french}",
                  heads=(adjective.english,), relations=((adjective.english, other.heads[0]),))


def _another(random: Random, kind: str) -> Phrase:
    return phrases.person(random) if kind == "person" else phrases.definite(random, random.choice(_COMPARABLE[kind]))


def profession(random: Random, subject: Phrase) -> Phrase:
    """A doctor: médecin, with no article."""
    noun = random.choice(_PROFESSIONS)
    while noun.english in subject.heads:
        noun = random.choice(_PROFESSIONS)
    if subject.person in (NOUS, ILS):
        return Phrase(noun.english_plural, noun.french_plural, heads=(noun.english,))
    return Phrase(english.noun_phrase("a", noun), noun.french, heads=(noun.english,))
