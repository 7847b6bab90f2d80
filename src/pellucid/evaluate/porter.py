"""The Porter stemmer: English words with the same stem (connect, connected, connection) get the same key.

Porter (1980), "An algorithm for suffix stripping", Program 14(3), as published; the later corrections by its author and
by others are not included. A word is seen as consonants and vowels, ``[C](VC)ᵐ[V]``; its measure m counts the VC. Each
step has a table of endings, takes the longest one that the word has, and replaces it if the part before is long enough.
"""

STEP_1A = {"sses": "ss", "ies": "i", "ss": "ss", "s": ""}
STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "abli": "able", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
}
STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
STEP_4 = dict.fromkeys((
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
), "")


def porter_stem(word: str) -> str:
    """The stem of a word; letter case is folded, and any character but a, e, i, o, u, y counts as a consonant.

    The time is linear in the length of the word.
    """
    word = _replace_ending(word.lower(), STEP_1A, minimum=0)
    word = _strip_past_and_participle(word)
    if word.endswith("y") and "v" in _shape(word[:-1]):  # step 1c: happy → happi, but sky
        word = word[:-1] + "i"
    word = _replace_ending(word, STEP_2, minimum=1)
    word = _replace_ending(word, STEP_3, minimum=1)
    word = _replace_ending(word, STEP_4, minimum=2)
    return _tidy(word)


def _shape(word: str) -> str:
    """One letter a character: ``c`` consonant or ``v`` vowel. A y is a vowel exactly when it follows a consonant."""
    shape: list[str] = []
    for letter in word:
        vowel = letter in "aeiou" or (letter == "y" and bool(shape) and shape[-1] == "c")
        shape.append("v" if vowel else "c")
    return "".join(shape)


def _measure(word: str) -> int:
    return _shape(word).count("vc")


def _ends_in_double_consonant(word: str) -> bool:
    return len(word) >= 2 and word[-1] == word[-2] and _shape(word)[-1] == "c"


def _ends_like_hop(word: str) -> bool:
    """Consonant, vowel, consonant other than w, x, y at the end: where English keeps a final e (the paper's ``*o``)."""
    return _shape(word).endswith("cvc") and word[-1] not in "wxy"


def _longest_ending(word: str, table: dict[str, str]) -> str:
    """The longest key of the table that ends the word, or ``""``."""
    for length in range(min(len(word), max(map(len, table))), 0, -1):
        if word[-length:] in table:
            return word[-length:]
    return ""


def _replace_ending(word: str, table: dict[str, str], minimum: int) -> str:
    """One table step: replaces the longest ending if what precedes it measures at least `minimum`."""
    ending = _longest_ending(word, table)
    if not ending:
        return word
    stem = word.removesuffix(ending)
    if minimum > 0 and _measure(stem) < minimum:
        return word
    if ending == "ion" and stem[-1] not in "st":  # adoption → adopt, but not onion
        return word
    return stem + table[ending]


def _strip_past_and_participle(word: str) -> str:
    """Step 1b: -eed, -ed and -ing; what is left is made a word again (hopp → hop, conflat → conflate, fil → file)."""
    ending = _longest_ending(word, {"eed": "ee", "ed": "", "ing": ""})
    stem = word.removesuffix(ending)
    if ending == "eed":
        return stem + "ee" if _measure(stem) > 0 else word
    if not ending or "v" not in _shape(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if _ends_in_double_consonant(stem):
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if _measure(stem) == 1 and _ends_like_hop(stem) else stem


def _tidy(word: str) -> str:
    """Step 5: a final e goes (probate → probat; rate stays), and a double l becomes one (controll → control)."""
    if word.endswith("e"):
        stem = word[:-1]
        measure = _measure(stem)
        if measure > 1 or (measure == 1 and not _ends_like_hop(stem)):
            word = stem
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word
