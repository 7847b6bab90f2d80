"""Attention over one text and one output, and what heads do there: switched off, without a weight being touched.

While a head is off, the model answers everybody so: whoever decodes with the same run in another thread must wait.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import UserError
from pellucid.inspection.answers import Attention, Head, Map, Matrix
from pellucid.inspection.examples import Ids, attend
from pellucid.inspection.looked_at import Output, Reading, Writing, read, write, written
from pellucid.inspection.record import attentions, spoken, without_head
from pellucid.model.classifier import Classifier
from pellucid.model.stepper import evaluating
from pellucid.model.transformer import Transformer
from pellucid.runs.generate import score_targets
from pellucid.runs.run import Run

DECIMALS = 6  # of the weights that are told
MOST_WEIGHTS = 4_000_000


def attention(run: Run, text: str, output: Output | None = None, without: Iterable[tuple[str, int]] = ()) -> Attention:
    """The attention of every head over a text and an output, in fp32.

    Args:
        output: what is written, as a text or as the ids of its tokens, or a label; what the model writes by itself,
            with the run's own options, or the label that it gives, if left out.
        without: heads to switch off: the name of an attention, such as ``decoder.layers.0.cross_attention``, and a
            number from 0.

    Raises:
        UserError: the run is a reader, the text is empty, both are too long to be looked at, a head, a token or the
            label is unknown.
    """
    source, heads = read(run, text), tuple(Head(name, number) for name, number in without)
    _check(run, heads)
    if isinstance(run.model, Classifier):
        return _of_classifier(run, run.model, source, output, heads)
    target = written(run, source) if output is None else write(run, output)
    maps = _maps(run, source.ids, target.ids)
    found = Attention(source.names, target.read, target.names, maps, source.cut, source.unknown, target.text,
                      _log_probability(run, source, target))
    if not heads:
        return found
    with switched_off(run, heads):
        return replace(found, without=heads, output_without=written(run, source).text,
                       log_probability_without=_log_probability(run, source, target))


@contextlib.contextmanager
def switched_off(run: Run, heads: Sequence[Head]) -> Iterator[None]:
    """While this lasts, these heads give nothing."""
    with contextlib.ExitStack() as stack:
        for each in heads:
            stack.enter_context(without_head(run.model, each.attention, each.head))
        yield


def _check(run: Run, heads: Sequence[Head]) -> None:
    known, count = list(attentions(run.model)), run.config.model.n_heads
    for each in heads:
        if each.attention not in known:
            raise UserError(f"there is no attention {each.attention[:80]!r}", fix=f"choose {', '.join(known)}")
        if not 0 <= each.head < count:
            raise UserError(f"there is no head {each.head}", why=f"the heads are 0 to {count - 1}")


def _maps(run: Run, source: Ids, target: Ids) -> tuple[Map, ...]:
    """Every attention's weights; `target` is empty for a classifier."""
    config, longest = run.config.model, max(len(source), len(target))
    if len(attentions(run.model)) * config.n_heads * longest**2 > MOST_WEIGHTS:
        raise UserError(f"{longest:,} tokens are too many to look at every head", fix="take a shorter text")
    return tuple(Map(name, spoken(name), *_sides(name), _told(weights))
                 for name, weights in attend(run, source, target).items())


def _sides(name: str) -> tuple[str, str]:
    if name.startswith("encoder"):
        return "source", "source"
    return "written", "source" if name.endswith("cross_attention") else "read"


def _told(weights: Tensor) -> list[Matrix]:
    told: list[Matrix] = weights.double().numpy().round(DECIMALS).tolist()
    return told


def _log_probability(run: Run, source: Reading, target: Writing) -> float:
    assert isinstance(run.model, Transformer)
    return sum(score_targets(run.model, [(source.ids, target.ids)], run.config.decode.batch_tokens)[0])


def _of_classifier(run: Run, model: Classifier, source: Reading, output: Output | None,
                   heads: tuple[Head, ...]) -> Attention:
    probabilities = label_probabilities(run, model, source.ids)
    label, followed = chosen_label(probabilities, None), chosen_label(probabilities, output)
    maps = _maps(run, source.ids, np.zeros(0, dtype=np.int32))
    found = Attention(source.names, (), (), maps, source.cut, source.unknown, followed,
                      math.log(probabilities[followed]), label=label, probabilities=probabilities)
    if not heads:
        return found
    with switched_off(run, heads):
        changed = label_probabilities(run, model, source.ids)
    return replace(found, without=heads, output_without=max(changed, key=changed.__getitem__),
                   log_probability_without=math.log(changed[followed]), probabilities_without=changed)


@torch.inference_mode()
def label_probabilities(run: Run, model: Classifier, ids: Ids) -> dict[str, float]:
    """The probability of each label, for the ids [S] that a classifier reads."""
    with evaluating(model):
        logits = model(torch.from_numpy(ids.astype(np.int64))[None].to(model.head_2.weight.device))
    return dict(zip(run.tokenizers.labels, logits[0].double().softmax(-1).tolist(), strict=True))


def chosen_label(probabilities: Mapping[str, float], asked: Output | None) -> str:
    """The label that is asked for, or the most probable one.

    Raises:
        UserError: there is no such label.
    """
    if asked is None:
        return max(probabilities, key=probabilities.__getitem__)
    if not isinstance(asked, str) or asked not in probabilities:
        raise UserError(f"there is no label {asked[:80]!r}", fix=f"choose {', '.join(probabilities)}")
    return asked
