"""What the grammar is made of: words in both languages, phrases, and clauses that join them."""

from dataclasses import dataclass
from typing import final

JE, TU, IL, NOUS, ILS = range(5)  # grammatical persons; IL is also every singular noun, ILS every plural
TENSES = ("present", "past", "future")


@final
@dataclass(frozen=True, slots=True)
class Noun:
    """A noun; `kind` says which verbs and adjectives make sense with it, an empty plural that it is not counted."""

    english: str
    english_plural: str
    french: str
    french_plural: str
    feminine: bool
    kind: str


@final
@dataclass(frozen=True, slots=True)
class Adjective:
    """An adjective; `french` holds masculine, feminine, masculine plural, feminine plural."""

    english: str
    comparative: str
    french: tuple[str, ...]
    before_noun: bool


@final
@dataclass(frozen=True, slots=True)
class Conjugation:
    """A French verb by person. States (être, avoir, aimer) have an imperfect, which translates the English past."""

    present: tuple[str, ...]
    future: tuple[str, ...]
    imperfect: tuple[str, ...]
    participle: str
    with_etre: bool


@final
@dataclass(frozen=True, slots=True)
class Verb:
    """An English verb (`particle`: look "for") and the French one (`preposition`: parler "à") that translates it."""

    english: str
    third: str
    past: str
    particle: str
    french: Conjugation
    preposition: str


@final
@dataclass(frozen=True, slots=True)
class Adverb:
    """An adverb; French puts each of them after the finite verb, English `before_verb` or after it."""

    english: str
    french: str
    before_verb: bool


@final
@dataclass(frozen=True, slots=True)
class Phrase:
    """A phrase in both languages: what agrees with it, its content words, and the pairs it joins already."""

    english: str
    french: str
    person: int = IL
    feminine: bool = False
    heads: tuple[str, ...] = ()
    relations: tuple[tuple[str, str], ...] = ()


NOTHING = Phrase("", "")


@final
@dataclass(frozen=True, slots=True)
class Clause:
    """Subject, verb and complement before either language has put them in order.

    `negation` is "", "not" or "never"; `pronoun` is an object pronoun; `setting` says where and when.
    """

    subject: Phrase
    verb: Verb
    tense: str
    negation: str = ""
    adverb: Adverb | None = None
    pronoun: Phrase | None = None
    complement: Phrase = NOTHING
    setting: Phrase = NOTHING


@final
@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence and its translation, with its derivation.

    `words` are the content words (English dictionary forms), `relations` the pairs of them that it puts together:
    subject and verb, verb and object, adjective and noun, owner and thing owned.
    """

    english: str
    french: str
    words: tuple[str, ...]
    relations: tuple[tuple[str, str], ...]
