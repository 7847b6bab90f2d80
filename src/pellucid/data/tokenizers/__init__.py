"""Tokenizers: text to ids and back, of five kinds with one interface.

Which keys of TokenizerConfig count:

| kind          | keys                                                                                             |
|---------------|--------------------------------------------------------------------------------------------------|
| all           | vocab_size (specials and sentinels are among them), shared, lowercase, strip_punctuation,        |
|               | sentinels, path                                                                                  |
| sentencepiece | algorithm, character_coverage, split_digits, user_defined_symbols, symbols, sample_lines,        |
|               | sample_characters, sampling; vocab_size exact                                                    |
| word          | min_frequency; vocab_size is a cap                                                               |
| character     | min_frequency; vocab_size is a cap                                                               |
| spacy         | min_frequency, source_language, target_language; vocab_size is a cap                             |
| imported      | none of those that train: `pellucid import` makes it                                             |
"""

from pellucid.data.tokenizers.build import Tokenizers, load_tokenizers, train_tokenizers
from pellucid.data.tokenizers.interface import BOS, EOS, PAD, UNK, Tokenizer

__all__ = ["BOS", "EOS", "PAD", "UNK", "Tokenizer", "Tokenizers", "load_tokenizers", "train_tokenizers"]
