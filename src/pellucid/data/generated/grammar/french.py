"""French: conjugation, agreement, word order, and what happens when two words meet (l', du, mon amie, bel)."""

import re

from pellucid.data.generated.grammar.words import IL, NOUS, Adjective, Clause, Conjugation, Noun

_FUTURE = ("ai", "as", "a", "ons", "ont")
_IMPERFECT = ("ais", "ais", "ait", "ions", "aient")

# infinitive: present (je, tu, il, nous, ils), stem of the future, past participle
_IRREGULAR = {"être": ("suis es est sommes sont", "ser", "été"), "avoir": ("ai as a avons ont", "aur", "eu"),
              "aller": ("vais vas va allons vont", "ir", "allé"),
              "venir": ("viens viens vient venons viennent", "viendr", "venu"),
              "partir": ("pars pars part partons partent", "partir", "parti"),
              "dormir": ("dors dors dort dormons dorment", "dormir", "dormi"),
              "faire": ("fais fais fait faisons font", "fer", "fait"),
              "voir": ("vois vois voit voyons voient", "verr", "vu"),
              "prendre": ("prends prends prend prenons prennent", "prendr", "pris"),
              "mettre": ("mets mets met mettons mettent", "mettr", "mis"),
              "lire": ("lis lis lit lisons lisent", "lir", "lu"),
              "écrire": ("écris écris écrit écrivons écrivent", "écrir", "écrit"),
              "boire": ("bois bois boit buvons boivent", "boir", "bu"),
              "ouvrir": ("ouvre ouvres ouvre ouvrons ouvrent", "ouvrir", "ouvert"),
              "acheter": ("achète achètes achète achetons achètent", "achèter", "acheté")}
_STATES = {"être": "ét", "avoir": "av", "aimer": "aim"}
_WITH_ETRE = ("aller", "venir", "partir", "arriver")

# masculine, feminine, plural; the key is the English determiner, or "no" for what is left of un, du, des after pas
_DETERMINERS = {
    "": ("le", "la", "les"),  # English says nothing where it means the whole kind: "he loves bread"
    "the": ("le", "la", "les"),
    "a": ("un", "une", "des"),
    "some": ("de le", "de la", "des"),
    "no": ("de", "de", "de"),
    "this": ("ce", "cette", "ces"),
    "these": ("ce", "cette", "ces"),
    "every": ("chaque", "chaque", "chaque"),
    "my": ("mon", "ma", "mes"),
    "your": ("ton", "ta", "tes"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
    "many": ("beaucoup de",) * 3,
    "two": ("deux",) * 3,
    "three": ("trois",) * 3,
    "four": ("quatre",) * 3,
    "five": ("cinq",) * 3,
    "six": ("six",) * 3,
    "seven": ("sept",) * 3,
    "eight": ("huit",) * 3,
    "nine": ("neuf",) * 3,
    "ten": ("dix",) * 3,
}
_BEFORE_VOWEL = {
    "le": "l'", "la": "l'", "je": "j'", "de": "d'", "ne": "n'", "que": "qu'", "me": "m'", "te": "t'",
    "ma": "mon", "ta": "ton", "sa": "son", "ce": "cet",
}
_VOWEL = "[aàâeéèêiîoôuhyœ](?!uit )"  # h is silent in every word of ours but "huit", which nothing is elided before
_MEETING = re.compile(rf"(?<= )({'|'.join(_BEFORE_VOWEL)}) (?={_VOWEL})")
_CONTRACTIONS = ((" de le ", " du "), (" de les ", " des "), (" à le ", " au "), (" à les ", " aux "))
_BEAUTIFUL_TREE = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}
_NEGATION = {"": "", "not": " pas", "never": " jamais"}


def conjugate(infinitive: str) -> Conjugation:
    """The forms of a verb: from the table of irregular ones, else regular in -er (manger too) or in -ir (finir)."""
    stem = infinitive[:-2]
    if infinitive in _IRREGULAR:
        forms, future, participle = _IRREGULAR[infinitive]
        present = tuple(forms.split())
    elif infinitive.endswith("er"):
        we = stem + ("eons" if stem.endswith("g") else "ons")
        present, future, participle = (stem + "e", stem + "es", stem + "e", we, stem + "ent"), infinitive, stem + "é"
    else:
        present = tuple(stem + ending for ending in ("is", "is", "it", "issons", "issent"))
        future, participle = infinitive, stem + "i"
    state = _STATES.get(infinitive)
    return Conjugation(present=present, future=tuple(future + ending for ending in _FUTURE),
                       imperfect=tuple(state + ending for ending in _IMPERFECT) if state else (), participle=participle,
                       with_etre=infinitive in _WITH_ETRE)


_ETRE, _AVOIR = conjugate("être"), conjugate("avoir")


def agree(adjective: Adjective, feminine: bool, plural: bool) -> str:
    """The form of an adjective beside a noun of this gender and number."""
    return adjective.french[feminine + 2 * plural]


def noun_phrase(determiner: str, noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> str:
    """Determiner, noun and adjective in French order; "le homme" waits for `join`, "bel arbre" is settled here."""
    article = _DETERMINERS[determiner][2 if plural else noun.feminine]
    name = noun.french_plural if plural else noun.french
    if adjective is None:
        return f"{article} {name}"
    form = agree(adjective, noun.feminine, plural)
    if not adjective.before_noun:
        return f"{article} {name} {form}"
    if plural and article == "des":
        article = "de"  # des chats, but de petits chats
    if not plural and name[0] in "aeiouéêhœ":
        form = _BEAUTIFUL_TREE.get(form, form)
    return f"{article} {form} {name}"


def predicate(clause: Clause) -> str:
    """All but the subject: ne, pronoun, finite verb, pas, adverb, participle, complement, place and time.

    The English past is a passé composé (an imparfait for être, avoir and aimer). Its participle agrees with the subject
    after être, with an object pronoun after avoir.
    """
    verb, subject, pronoun = clause.verb.french, clause.subject, clause.pronoun
    composed = clause.tense == "past" and not verb.imperfect
    if composed:
        finite = (_ETRE if verb.with_etre else _AVOIR).present[subject.person]
    elif clause.tense == "past":
        finite = verb.imperfect[subject.person]
    else:
        finite = (verb.future if clause.tense == "future" else verb.present)[subject.person]
    text = ("ne " if clause.negation else "") + (f"{pronoun.french} " if pronoun else "") + finite
    text += _NEGATION[clause.negation]
    if clause.adverb:
        text += f" {clause.adverb.french}"
    if composed:
        text += f" {verb.participle}"
        master = subject if verb.with_etre else pronoun
        if master:
            text += ("e" if master.feminine else "") + ("s" if master.person >= NOUS else "")
    if clause.verb.preposition:
        text += f" {clause.verb.preposition}"
    if clause.complement.french:
        text += f" {clause.complement.french}"
    return f"{text} {clause.setting.french}" if clause.setting.french else text


def statement(clause: Clause) -> str:
    """Subject and predicate; "est-ce que" before it makes it a question."""
    return f"{clause.subject.french} {predicate(clause)}"


def existence(tense: str, negative: bool) -> str:
    """There is, there was, there will be: il y a, il y avait, il y aura, or none of it: il n' y a pas."""
    forms = {"present": _AVOIR.present, "past": _AVOIR.imperfect, "future": _AVOIR.future}[tense]
    return f"il ne y {forms[IL]} pas" if negative else f"il y {forms[IL]}"


def being(tense: str, person: int) -> str:
    """Est, était, sera."""
    return {"present": _ETRE.present, "past": _ETRE.imperfect, "future": _ETRE.future}[tense][person]


def join(text: str) -> str:
    """Elision first (le homme: l' homme; ma amie: mon amie), then contraction (de le roi: du roi)."""
    text = _MEETING.sub(lambda met: f"{_BEFORE_VOWEL[met[1]]} ", f" {text} ")
    for apart, together in _CONTRACTIONS:
        text = text.replace(apart, together)
    return text[1:-1]
