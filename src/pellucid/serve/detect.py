"""Which language a text is in, of those that runs translate from: how well each one's tokenizer fits it.

A text costs ln V nats a token under a tokenizer of V ids, more where it does not know a part, or the letters are not
those of the language; each of its words tells for the languages that it is among the commonest of, which tells two
languages apart that share a vocabulary. What is found by Bayes' rule from that is worth as much as the tokenizer fits:
one whose tokens come out much shorter here than they are in its vocabulary was made for something else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping

from pellucid.data.tokenizers.interface import Tokenizer
from pellucid.doctor.language import SCRIPTS, letters_of

_UNKNOWN = 6.0  # nats for each character of a part that a tokenizer does not know, or that is of another script
_EVIDENCE = 0.5  # of a nat counts: neighbours are not independent
_USUAL = 0.5  # length of a token in running text, to that of an entry of the vocabulary; rare ones are long
_OF_COMMON, _ELSEWHERE = 0.3, 0.01  # of running words are among the commonest of their language, of another
_LETTER = 3.0  # nats for a letter that a language does not write
_MOST = 2000  # characters that are looked at

# Of languages that share letters: those that not all of them have, and the commonest words.
_OWN = {line.split()[0]: (frozenset(line.split()[1]), frozenset(line.split()[2:])) for line in """
en - the of and to in is that it was for you he with on i are not have this be at by from they we she do his her my \
 me an what but or so all if there can will would your one who a s t m re ve ll don no
fr àâæçéèêëîïôœùûüÿ le la les l de des du d et est un une que qu il je j pas en ne n dans vous qui pour elle au ce c \
 nous tu a ai on se s sur avec plus son sa mon ma cette sont suis as mais aux par
de äöüß der die das und ist nicht ich ein eine einen einem einer zu den mit sie es auf von dem er auch im in wir du \
 hat ihr was wie für an sich war sind aus bei so des mich
es áéíñóúü el la los las de que y en un una es no se por con para del lo su me mi te ha yo le más al como está pero
it àèéìíòóù il la di che e un una non per sono del con le si da mi è i nel ha lo al della gli ho ti più come ma questo
pt áâãàçéêíóôõú o a de que e do da em um uma não para com os se no na eu por ele você as mais dos meu está foi isso
nl ëïéèöü de het een van en is dat niet te ik in op zijn met voor die er aan hij je wat ze was naar maar dit heb om
sv åäöé och att det som en på är jag inte av för med den till har ett om han du vi kan
da æøåé og at det er en på i jeg ikke af for med den til har et som han du vi kan
nb æøåéòô og at det er en på i jeg ikke av for med den til har et som han du vi kan
fi äöå ja on ei se että hän oli olen minä mutta ovat kuin niin tämä myös voi sinä
pl ąćęłńóśźż w i nie na się z do to jest że jak co ale o po jestem tak czy
cs áčďéěíňóřšťúůýž a se na je v to že z s ne si jsem do by ale jak tak o
sk áäčďéíĺľňóôŕšťúýž a sa na je v to že z s nie si som do by ale ako tak o
hu áéíóöőúüű a az és nem hogy egy is meg ez de van volt csak mint ha el
ro ăâîșțşţ și de la în nu a un o este pe cu că să din se am mai
tr çğıöşüâî ve bir bu da de için ne ben o çok değil mi var ile daha gibi
id é yang dan di itu dengan untuk tidak ini dari dia saya ke ada akan pada
ru ёщъыэ и в не на я что он с это как а по но она к у мы
uk ґєіїщ і в не на я що він з це як а по але вона до у ми
bg щъ и в не на да се е за от с че това той като си аз ще
sr ђјљњћџ и у не на да се је за од са да то он као што ће сам
""".strip().splitlines()}
_SHARED = frozenset("abcdefghijklmnopqrstuvwxyzабвгдежзийклмнопрстуфхцчшьюя")
_SCRIPT = dict.fromkeys(_OWN, "Latin") | {code: script for script, codes in {
    "Cyrillic": "ru uk bg sr mk be kk ky mn", "Greek": "el", "Armenian": "hy", "Hebrew": "he yi",
    "Arabic": "ar fa ur ps", "Devanagari": "hi mr ne sa", "Bengali": "bn as", "Gurmukhi": "pa", "Gujarati": "gu",
    "Tamil": "ta", "Telugu": "te", "Kannada": "kn", "Malayalam": "ml", "Sinhala": "si", "Thai": "th", "Lao": "lo",
    "Burmese": "my", "Georgian": "ka", "Hangul": "ko", "Ethiopic": "am ti", "Khmer": "km",
    "Han or kana": "zh zt ja lzh yue"}.items() for code in codes.split()}
_WORD = re.compile(r"\w+")
_KANA = re.compile("[\u3041-\u30ff]")


class Detector:
    """Tells languages apart.

    Args:
        tokenizers: of each language, by its code, one that was made for it.
    """

    def __init__(self, tokenizers: Mapping[str, Tokenizer]) -> None:
        self._tokenizers = dict(tokenizers)
        self._usual = {code: _length(tokenizer) for code, tokenizer in tokenizers.items()}

    def detect(self, text: str) -> list[tuple[str, int]]:
        """Each language with the confidence that the text is in it, in per cent, the highest first; they sum to 100 at
        most. Of a text without letters, or in none of them, nothing is sure."""
        text = " ".join(text[:_MOST].split())
        nats, fits = {}, {}
        for code, tokenizer in self._tokenizers.items():
            nats[code], fits[code] = self._fit(code, tokenizer, text)
        best = min(nats.values(), default=0.0)
        weights = {code: math.exp(_EVIDENCE * (best - cost)) for code, cost in nats.items()}
        total = sum(weights.values())
        found = [(code, int(100 * fits[code] * weight / total)) for code, weight in weights.items()]
        return sorted(found, key=lambda pair: (-weights[pair[0]] * fits[pair[0]], -weights[pair[0]]))

    def _fit(self, code: str, tokenizer: Tokenizer, text: str) -> tuple[float, float]:
        """What the text costs in this language, in nats, and how well the tokenizer fits it, from 0 to 1."""
        letters = letters_of([text]).scripts[0, 1:]
        if not letters.sum():
            return 0.0, 0.0
        ids, language = tokenizer.encode(text), code.partition("-")[0].lower()
        unknown = sum(map(len, tokenizer.unknown(text)))
        script = _SCRIPT.get(language)
        own = letters.sum() if script is None else letters[SCRIPTS.index(script) - 1]
        foreign = int(letters.sum() - own)
        strange = min(len(text), max(unknown, foreign))
        nats = len(ids) * math.log(tokenizer.size) + _UNKNOWN * (unknown + foreign) - _words(language, text)
        per_token = (len(text) - unknown) / max(1, len(ids))
        return nats, min(1.0, per_token / self._usual[code]) * (1 - strange / len(text))


def _length(tokenizer: Tokenizer) -> float:
    """How many characters a token of running text has."""
    lengths = [len(spelling) for spelling in tokenizer.spellings() if spelling.strip()]
    return max(1.0, _USUAL * sum(lengths) / max(1, len(lengths)))


def _words(language: str, text: str) -> float:
    """What the words and letters of a text tell for a language, in nats; of Japanese, its kana."""
    if language == "ja":
        return _UNKNOWN * len(_KANA.findall(text))
    if language not in _OWN:
        return 0.0
    own, common = _OWN[language]
    words = Counter(_WORD.findall(text.lower()))
    hits = sum(words[word] for word in common)
    others = sum(character not in own for character in text.lower() if character.isalpha() and character not in _SHARED)
    return (hits * math.log(_OF_COMMON / _ELSEWHERE) - others * _LETTER
            + (words.total() - hits) * math.log((1 - _OF_COMMON) / (1 - _ELSEWHERE)))
