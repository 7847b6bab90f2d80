"""Words as spaCy's rules for a language split them, Chinese by jieba; nothing is downloaded.

Joining is a guess: tokens are joined by a space, so "don't" comes back as "do n't"; in languages written without
spaces, by nothing.
"""

from pellucid.data.tokenizers.vocabulary import Rule
from pellucid.errors import ConfigError

_WITHOUT_SPACES = {"zh", "ja", "th"}


def rule(language: str, side: str) -> Rule:
    """The rule for the language of a side, source or target, named by its two or three letters.

    Raises:
        ConfigError: spaCy does not know the language, or it or a package that the language needs is not installed.
    """
    import logging  # here, since who has another tokenizer needs none of it

    try:
        import spacy
    except ImportError as error:
        raise ConfigError("tokenizer.kind spacy needs spaCy", where="tokenizer.kind",
                          fix="pip install 'pellucid[words]', or use tokenizer.kind word or sentencepiece") from error
    settings = {"nlp": {"tokenizer": {"segmenter": "jieba"}}} if language == "zh" else {}
    logging.getLogger("jieba").setLevel(logging.WARNING)
    try:
        tokenizer = spacy.blank(language, config=settings).tokenizer
    except (ImportError, ValueError) as error:
        raise ConfigError(f"spaCy cannot tokenize the language {language!r}", where=f"tokenizer.{side}_language",
                          why=str(error).strip().splitlines()[0][:300],
                          fix="name a language of spacy.io/usage/models#languages; some need a package of their own"
                          ) from error

    def split(text: str) -> list[str]:
        return [token.text for token in tokenizer(text) if not token.is_space]

    return Rule(split, "" if language in _WITHOUT_SPACES else " ")
