"""Words between spaces.

Text whose words are known and stand one space apart comes back from its ids as it was. Only U+0020 separates; more than
one, and spaces at the ends, are lost.
"""

from pellucid.data.tokenizers.vocabulary import Rule


def _split(text: str) -> list[str]:
    return [word for word in text.split(" ") if word]


RULE = Rule(_split, " ")
