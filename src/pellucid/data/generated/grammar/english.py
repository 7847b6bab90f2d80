"""English: word order, do-support, a and an."""

from pellucid.data.generated.grammar.words import IL, ILS, Adjective, Clause, Noun, Verb

_BE_PRESENT = ("am", "are", "is", "are", "are")
_BE_PAST = ("was", "were", "was", "were", "were")


def noun_phrase(determiner: str, noun: Noun, plural: bool = False, adjective: Adjective | None = None) -> str:
    """Determiner, adjective, noun; "a" becomes "an" where a vowel follows."""
    name = noun.english_plural if plural else noun.english
    if adjective:
        name = f"{adjective.english} {name}"
    if determiner == "a" and name[0] in "aeiou":
        determiner = "an"
    return f"{determiner} {name}" if determiner else name


def being(tense: str, person: int) -> str:
    """Am, are, is; was, were; will be."""
    return {"present": _BE_PRESENT, "past": _BE_PAST}[tense][person] if tense != "future" else "will be"


def auxiliary(clause: Clause) -> str:
    """What a question or a negation begins with: do, does, did, will, or a form of be."""
    if clause.tense == "future":
        return "will"
    if clause.verb.english == "be":
        return being(clause.tense, clause.subject.person)
    if clause.tense == "past":
        return "did"
    return "does" if clause.subject.person == IL else "do"


def ambiguous(verb: Verb, person: int, tense: str, negation: str) -> bool:
    """Whether present and past look alike ("they read"), so that only a time can tell them apart."""
    return verb.english == verb.past and person != IL and tense != "future" and negation != "not"


def predicate(clause: Clause) -> str:
    """All but the subject: negation or adverb, verb, object, place and time."""
    verb, third = clause.verb, clause.subject.person == IL
    before = _before(clause)
    if verb.english == "be":
        form = being(clause.tense, clause.subject.person)
        if before and clause.tense == "future":
            return f"will{before} be{_after(clause)}"
        return f"{form}{before}{_after(clause)}"
    if clause.tense == "future" or clause.negation == "not":
        return f"{auxiliary(clause)}{before} {verb.english}{_after(clause)}"
    form = verb.past if clause.tense == "past" else verb.third if third else verb.english
    return f"{before} {form}{_after(clause)}".lstrip()


def statement(clause: Clause) -> str:
    """Subject and predicate."""
    return f"{clause.subject.english} {predicate(clause)}"


def question(clause: Clause) -> str:
    """Auxiliary, subject, the rest; "where" or "why" may come before it."""
    verb = clause.verb.english
    text = f"{auxiliary(clause)} {clause.subject.english}{_before(clause)}"
    if verb != "be" or clause.tense == "future":
        text += f" {verb}"
    return text + _after(clause)


def existence(tense: str, plural: bool) -> tuple[str, str]:
    """There is, there are, there was, there will be, in two halves that a question swaps."""
    first, _, second = being(tense, ILS if plural else IL).partition(" ")
    return first, second


def _before(clause: Clause) -> str:
    """Not, never or often, with a space before it."""
    adverb = clause.adverb.english if clause.adverb and clause.adverb.before_verb else ""
    return (f" {clause.negation}" if clause.negation else "") + (f" {adverb}" if adverb else "")


def _after(clause: Clause) -> str:
    """What follows the verb, each part with a space before it."""
    adverb = clause.adverb.english if clause.adverb and not clause.adverb.before_verb else ""
    pronoun = clause.pronoun.english if clause.pronoun else ""
    parts = (clause.verb.particle, pronoun, adverb, clause.complement.english, clause.setting.english)
    return "".join(f" {part}" for part in parts if part)
