"""An English to French grammar of our own: millions of correct sentence pairs, each English one with one French one."""

from pellucid.data.generated.grammar.sampling import Splits, splits
from pellucid.data.generated.grammar.sentences import sentence
from pellucid.data.generated.grammar.words import Pair

__all__ = ["Pair", "Splits", "sentence", "splits"]
