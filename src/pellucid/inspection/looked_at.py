"""What is looked at: a text as the model reads it, an output as it writes it, and a name for each of their tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from pellucid.config.checks import refuse_readers
from pellucid.data.source_ids import shorten, source_ids
from pellucid.data.tokenizers.interface import EOS
from pellucid.errors import UserError
from pellucid.inspection.examples import Ids, token_names
from pellucid.model.transformer import Transformer
from pellucid.runs.decoder import PlainSteps, Request
from pellucid.runs.run import Run
from pellucid.runs.texts import search_options, warn_of_cuts
from pellucid.search.beginnings import of_tokens

Output = str | Sequence[int]  # a text, or the ids of its tokens, eos last if it is finished


@dataclass(frozen=True)
class Reading:
    """A text as the encoder reads it: ids [S] and their names; how many tokens of it are cut, and the parts of it that
    the model does not know."""

    ids: Ids
    names: tuple[str, ...]
    cut: int
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Writing:
    """An output as the decoder writes it: ids [T], eos last if it is finished, and their names. Of a classifier, its
    label, the label's number, and no names."""

    text: str
    ids: Ids
    names: tuple[str, ...]

    @property
    def read(self) -> tuple[str, ...]:
        """What the decoder has before it as it writes each of them [T]."""
        return ("‹start›", *self.names[:-1]) if self.names else ()


def read(run: Run, text: str) -> Reading:
    """What the encoder reads of a text: what is longer than the model takes is cut, with a warning.

    Raises:
        ConfigError (a UserError): the run is a reader.
        UserError: the text is empty.
    """
    refuse_readers(run.config, "inspect", str(run.folder))
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    limit = run.config.model.max_length
    ids = source_ids([text], run.tokenizers, run.config.task == "classification")[0]
    warn_of_cuts({0: len(ids)}, limit)
    cut = np.asarray(shorten(ids, limit), dtype=np.int32)
    unknown = tuple(run.tokenizers.source.unknown(text))
    return Reading(cut, token_names(run.tokenizers.source, cut, unknown), len(ids) - len(cut), unknown)


def write(run: Run, output: Output) -> Writing:
    """How the decoder writes what is given: a text, with its end; or just these tokens.

    Raises:
        UserError: there is no such token, or none at all; or it is longer than the positions that the model has
            learned.
    """
    tokenizer, limit = run.tokenizers.target, run.config.model.max_length
    tokens = [*tokenizer.encode(output), EOS] if isinstance(output, str) else list(output)
    strange = next((token for token in tokens if not 0 <= token < tokenizer.size), None)
    if strange is not None or not tokens:
        raise UserError("the output has no tokens" if strange is None else f"there is no token {strange}",
                        fix=f"give a text, or ids from 0 to {tokenizer.size - 1:,}, the end's among them")
    ids = np.asarray(tokens, dtype=np.int32)
    if run.config.model.position == "learned" and len(ids) > limit:
        raise UserError(f"the output has {len(ids):,} tokens", why=f"learned positions end at model.max_length {limit}",
                        fix="give a shorter one")
    if isinstance(output, str):
        return Writing(output, ids, token_names(tokenizer, ids, tokenizer.unknown(output)))
    return Writing(tokenizer.decode(tokens), ids, token_names(tokenizer, ids))


def written(run: Run, source: Reading) -> Writing:
    """What the model itself writes, step by step in fp32, with the run's own options: as it is now, hooks included."""
    options = replace(run.config.decode, n_best=1)
    steps = PlainSteps(Request(lambda: cast(Transformer, run.model), search_options(options), options))
    best = steps.search([source.ids], [of_tokens(run.tokenizers.target.forced)], [0])[0][0]
    return write(run, [*best.tokens, *([EOS] if best.finished else [])])
