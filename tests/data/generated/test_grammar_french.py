"""The grammar's French and English against hand-written sentences, forms and tables."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pellucid.data.generated.grammar import Pair, english, french, phrases
from pellucid.data.generated.grammar.clauses import agreeing
from pellucid.data.generated.grammar.lexicon import (
    ADJECTIVES,
    FREQUENCY,
    MANNER,
    NAMES,
    NOUNS,
    OBJECT_PRONOUNS,
    PRONOUNS,
    VERBS,
)
from pellucid.data.generated.grammar.sentences import asked, stated
from pellucid.data.generated.grammar.words import Adverb, Clause, Phrase

# infinitive: present, future (je, tu, il, nous, ils), participle, from a grammar book and not from the module
CONJUGATIONS = {
    "être": ("suis es est sommes sont", "serai seras sera serons seront", "été"),
    "avoir": ("ai as a avons ont", "aurai auras aura aurons auront", "eu"),
    "aller": ("vais vas va allons vont", "irai iras ira irons iront", "allé"),
    "venir": ("viens viens vient venons viennent", "viendrai viendras viendra viendrons viendront", "venu"),
    "partir": ("pars pars part partons partent", "partirai partiras partira partirons partiront", "parti"),
    "dormir": ("dors dors dort dormons dorment", "dormirai dormiras dormira dormirons dormiront", "dormi"),
    "faire": ("fais fais fait faisons font", "ferai feras fera ferons feront", "fait"),
    "voir": ("vois vois voit voyons voient", "verrai verras verra verrons verront", "vu"),
    "prendre": ("prends prends prend prenons prennent", "prendrai prendras prendra prendrons prendront", "pris"),
    "mettre": ("mets mets met mettons mettent", "mettrai mettras mettra mettrons mettront", "mis"),
    "lire": ("lis lis lit lisons lisent", "lirai liras lira lirons liront", "lu"),
    "écrire": ("écris écris écrit écrivons écrivent", "écrirai écriras écrira écrirons écriront", "écrit"),
    "boire": ("bois bois boit buvons boivent", "boirai boiras boira boirons boiront", "bu"),
    "ouvrir": ("ouvre ouvres ouvre ouvrons ouvrent", "ouvrirai ouvriras ouvrira ouvrirons ouvriront", "ouvert"),
    "acheter": (
        "achète achètes achète achetons achètent",
        "achèterai achèteras achètera achèterons achèteront",
        "acheté",
    ),
    "manger": ("mange manges mange mangeons mangent", "mangerai mangeras mangera mangerons mangeront", "mangé"),
    "parler": ("parle parles parle parlons parlent", "parlerai parleras parlera parlerons parleront", "parlé"),
    "choisir": (
        "choisis choisis choisit choisissons choisissent",
        "choisirai choisiras choisira choisirons choisiront",
        "choisi",
    ),
}

NOUN_PHRASES = [
    ("the", "man", False, "", "the man", "l' homme"),
    ("the", "hotel", False, "", "the hotel", "l' hôtel"),
    ("the", "key", True, "yellow", "the yellow keys", "les clés jaunes"),
    ("a", "egg", False, "", "an egg", "un œuf"),
    ("a", "actress", False, "old", "an old actress", "une vieille actrice"),
    ("a", "man", False, "old", "an old man", "un vieil homme"),
    ("some", "man", True, "old", "some old men", "de vieux hommes"),
    ("this", "bird", False, "beautiful", "this beautiful bird", "ce bel oiseau"),
    ("this", "tree", False, "", "this tree", "cet arbre"),
    ("these", "computer", True, "new", "these new computers", "ces nouveaux ordinateurs"),
    ("the", "computer", False, "new", "the new computer", "le nouvel ordinateur"),
    ("some", "bread", False, "", "some bread", "du pain"),
    ("some", "water", False, "cold", "some cold water", "de l' eau froide"),
    ("some", "soup", False, "good", "some good soup", "de la bonne soupe"),
    ("some", "cat", True, "white", "some white cats", "des chats blancs"),
    ("some", "cat", True, "small", "some small cats", "de petits chats"),
    ("my", "actress", False, "", "my actress", "mon actrice"),
    ("my", "sister", False, "", "my sister", "ma sœur"),
    ("her", "story", False, "beautiful", "her beautiful story", "sa belle histoire"),
    ("their", "horse", True, "", "their horses", "leurs chevaux"),
    ("many", "friend", True, "", "many friends", "beaucoup d' amis"),
    ("eight", "orange", True, "", "eight oranges", "huit oranges"),
    ("every", "girl", False, "happy", "every happy girl", "chaque fille heureuse"),
    ("the", "woman", True, "french", "the french women", "les femmes françaises"),
]


def who(text: str) -> Phrase:
    """A pronoun, a name, or a noun with "the" ("the girls")."""
    for phrase in (*PRONOUNS, *NAMES):
        if phrase.english == text:
            return phrase
    return the(text.removeprefix("the "))


def the(text: str, determiner: str = "the", mood: str = "statement") -> Phrase:
    for noun in NOUNS.values():
        if text in (noun.english, noun.english_plural):
            return phrases.noun_phrase(determiner, noun, text == noun.english_plural, mood=mood)
    raise KeyError(text)


def him(text: str) -> Phrase:
    return next(phrase for phrase in OBJECT_PRONOUNS if phrase.english == text)


def act(subject: str, verb: str, tense: str, complement: Phrase | None = None, negation: str = "") -> Clause:
    return Clause(who(subject), VERBS[verb], tense, negation, complement=complement or Phrase("", ""))


def described(subject: str, adjective: str, tense: str, negation: str = "") -> Clause:
    return act(subject, "be", tense, agreeing(who(subject), adjective), negation)


def seen(subject: str, verb: str, tense: str, pronoun: str, negation: str = "") -> Clause:
    return replace(act(subject, verb, tense, negation=negation), pronoun=him(pronoun))


def how(clause: Clause, adverb: Adverb) -> Clause:
    return replace(clause, adverb=adverb)


def where(clause: Clause, preposition: str, preposition_french: str, place: str) -> Clause:
    spot = the(place)
    return replace(clause, setting=Phrase(f"{preposition} {spot.english}", f"{preposition_french} {spot.french}"))


SENTENCES = [
    (stated(act("the boy", "sleep", "present")), "the boy sleeps .", "le garçon dort ."),
    (stated(act("the girls", "leave", "past")), "the girls left .", "les filles sont parties ."),
    (stated(act("she", "arrive", "past")), "she arrived .", "elle est arrivée ."),
    (stated(act("we", "arrive", "past", negation="not")), "we did not arrive .", "nous ne sommes pas arrivés ."),
    (stated(act("the queen", "come", "past")), "the queen came .", "la reine est venue ."),
    (stated(act("i", "love", "present", the("trees", ""))), "i love trees .", "j' aime les arbres ."),
    (stated(act("i", "love", "present", the("bread", ""))), "i love bread .", "j' aime le pain ."),
    (stated(act("they", "love", "past", the("king"))), "they loved the king .", "ils aimaient le roi ."),
    (stated(act("he", "eat", "past", the("apple", "a"))), "he ate an apple .", "il a mangé une pomme ."),
    (stated(act("he", "eat", "past", the("apple", "a", "negation"), "not")),
     "he did not eat an apple .", "il n' a pas mangé de pomme ."),
    (stated(act("paul", "drink", "present", the("water", "any", "negation"), "not")),
     "paul does not drink any water .", "paul ne boit pas d' eau ."),
    (asked(act("paul", "drink", "present", the("water", "any", "question"))),
     "does paul drink any water ?", "est-ce que paul boit de l' eau ?"),
    (asked(act("alice", "drink", "future", the("wine", "any", "question"))),
     "will alice drink any wine ?", "est-ce qu' alice boira du vin ?"),
    (stated(act("we", "eat", "present", the("eggs", "some"))), "we eat some eggs .", "nous mangeons des œufs ."),
    (stated(act("the children", "make", "present", the("cakes", "two"))),
     "the children make two cakes .", "les enfants font deux gâteaux ."),
    (stated(act("you", "open", "future", the("window"))), "you will open the window .", "tu ouvriras la fenêtre ."),
    (stated(act("i", "open", "past", the("letters", "her"))), "i opened her letters .", "j' ai ouvert ses lettres ."),
    (stated(act("the uncle", "have", "present", the("dog", "a"))), "the uncle has a dog .", "l' oncle a un chien ."),
    (stated(act("the uncle", "have", "past", the("dogs", "any", "negation"), "not")),
     "the uncle did not have any dogs .", "l' oncle n' avait pas de chiens ."),
    (stated(act("i", "read", "present", the("newspaper"), "never")),
     "i never read the newspaper .", "je ne lis jamais le journal ."),
    (stated(act("she", "write", "past", the("story", "a", "negation"), "never")),
     "she never wrote a story .", "elle n' a jamais écrit d' histoire ."),
    (stated(seen("the boy", "see", "past", "her")), "the boy saw her .", "le garçon l' a vue ."),
    (stated(seen("the boy", "see", "present", "him")), "the boy sees him .", "le garçon le voit ."),
    (stated(seen("i", "see", "past", "them", "not")), "i did not see them .", "je ne les ai pas vus ."),
    (stated(seen("i", "love", "present", "you")), "i love you .", "je t' aime ."),
    (stated(seen("you", "look", "present", "me", "not")), "you do not look for me .", "tu ne me cherches pas ."),
    (asked(seen("the nurse", "watch", "past", "us")),
     "did the nurse watch us ?", "est-ce que l' infirmière nous a regardés ?"),
    (stated(how(act("the girl", "sing", "past"), FREQUENCY[0])),
     "the girl often sang .", "la fille a souvent chanté ."),
    (stated(how(act("they", "sleep", "past", negation="not"), MANNER[0])),
     "they did not sleep well .", "ils n' ont pas bien dormi ."),
    (stated(how(act("we", "work", "future"), MANNER[1])), "we will work a lot .", "nous travaillerons beaucoup ."),
    (stated(where(act("she", "go", "past"), "to", "à", "market")),
     "she went to the market .", "elle est allée au marché ."),
    (stated(where(act("i", "go", "future"), "to", "à", "school")), "i will go to the school .", "j' irai à l' école ."),
    (stated(where(act("paul", "come", "present"), "from", "de", "office")),
     "paul comes from the office .", "paul vient du bureau ."),
    (stated(where(act("marie", "come", "past"), "from", "de", "hospital")),
     "marie came from the hospital .", "marie est venue de l' hôpital ."),
    (asked(where(act("the cats", "sleep", "present"), "near", "près de", "bed"), "why", "pourquoi"),
     "why do the cats sleep near the bed ?", "pourquoi est-ce que les chats dorment près du lit ?"),
    (asked(act("he", "sing", "past"), "where", "où"), "where did he sing ?", "où est-ce qu' il a chanté ?"),
    (asked(act("she", "leave", "future"), "when", "quand"),
     "when will she leave ?", "quand est-ce qu' elle partira ?"),
    (asked(act("the king", "look", "present"), "what", "que"),
     "what does the king look for ?", "qu' est-ce que le roi cherche ?"),
    (stated(act("the teacher", "speak", "present", the("students"))),
     "the teacher speaks to the students .", "le professeur parle aux étudiants ."),
    (stated(act("the teacher", "talk", "past", the("films"))),
     "the teacher talked about the films .", "le professeur a parlé des films ."),
    (stated(act("you", "talk", "present", the("man"))), "you talk about the man .", "tu parles de l' homme ."),
    (stated(described("the girls", "happy", "present")), "the girls are happy .", "les filles sont heureuses ."),
    (stated(described("the flower", "white", "past", "not")),
     "the flower was not white .", "la fleur n' était pas blanche ."),
    (stated(described("i", "tired", "present")), "i am tired .", "je suis fatigué ."),
    (asked(described("you", "sick", "past")), "were you sick ?", "est-ce que tu étais malade ?"),
    (asked(described("the horses", "beautiful", "future")),
     "will the horses be beautiful ?", "est-ce que les chevaux seront beaux ?"),
]


@pytest.mark.parametrize("infinitive", CONJUGATIONS)
def test_conjugation(infinitive: str) -> None:
    present, future, participle = CONJUGATIONS[infinitive]
    verb = french.conjugate(infinitive)
    assert (" ".join(verb.present), " ".join(verb.future), verb.participle) == (present, future, participle)


def test_imperfect_belongs_to_states() -> None:
    assert french.conjugate("être").imperfect == ("étais", "étais", "était", "étions", "étaient")
    assert french.conjugate("avoir").imperfect == ("avais", "avais", "avait", "avions", "avaient")
    assert french.conjugate("aimer").imperfect == ("aimais", "aimais", "aimait", "aimions", "aimaient")
    assert {verb.english for verb in VERBS.values() if verb.french.imperfect} == {"be", "have", "love"}


@pytest.mark.parametrize(("determiner", "noun", "plural", "adjective", "english_text", "french_text"), NOUN_PHRASES)
def test_noun_phrase(
    determiner: str, noun: str, plural: bool, adjective: str, english_text: str, french_text: str
) -> None:
    phrase = phrases.noun_phrase(determiner, NOUNS[noun], plural, ADJECTIVES.get(adjective))
    assert phrase.english == english_text
    assert french.join(phrase.french) == french_text


@pytest.mark.parametrize(("pair", "english_text", "french_text"), SENTENCES)
def test_sentence(pair: Pair, english_text: str, french_text: str) -> None:
    assert pair.english == english_text
    assert pair.french == french_text


def test_a_time_tells_present_from_past_where_english_does_not() -> None:
    assert english.ambiguous(VERBS["read"], person=4, tense="past", negation="")
    assert not english.ambiguous(VERBS["read"], person=2, tense="past", negation="")
    times = [phrases.time(Random(i), tense, True).english for tense in ("present", "past") for i in range(300)]
    assert not set(times[:300]) & set(times[300:])


def test_derivation_names_the_words_that_meet() -> None:
    good_cake = phrases.noun_phrase("the", NOUNS["cake"], False, ADJECTIVES["good"])
    pair = stated(act("the king", "eat", "present", good_cake))
    assert set(pair.words) == {"king", "eat", "cake", "good"}
    assert set(pair.relations) == {("king", "eat"), ("eat", "cake"), ("good", "cake")}
