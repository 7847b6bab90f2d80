"""Characters, one id a code point. Text of known characters comes back from its ids as it was, without exception."""

from pellucid.data.tokenizers.vocabulary import Rule

RULE = Rule(list, "")
