r"""What each token of the source and of the prefix contributes to the log-probability of each token that is written.

Three ways to say it, over embeddings :math:`x_i` (positions stay), with :math:`f = \log P(y_t | y_{<t}, x)`:

- gradient × input, :math:`x_i \cdot \partial f / \partial x_i` (Simonyan et al. 2014; Shrikumar et al. 2017): one pass,
  the effect of a small change of each token;
- integrated gradients, :math:`x_i \cdot \int_0^1 \partial f(a x) / \partial x_i \, da` (Sundararajan et al. 2017), from
  embeddings that are all 0: they add up to :math:`f(x) - f(0)`, and by how much they do not is their error;
- leave one out, :math:`f(x) - f(x \text{ with } x_i = 0)` (Li et al. 2016): what happens when a token is not there, and
  so the judge of the other two.

A map that looks the same for a model that has learned nothing says nothing about what was learned: the same is found
for random weights (Adebayo et al. 2018). How much of a row is the source's share is the question of Ferrando et al.
(2022), who answer it from the inside of attention; here it is told of whichever contributions were found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from pellucid.errors import UserError
from pellucid.inspection.answers import Contributions
from pellucid.inspection.explained import Explained, Pair, differentiable, explained
from pellucid.inspection.integration import difference, integrated_gradients
from pellucid.inspection.live import chosen_label, label_probabilities
from pellucid.inspection.looked_at import Output, Writing, read, write, written
from pellucid.model.classifier import Classifier
from pellucid.model.reader import Reader
from pellucid.model.stepper import evaluating
from pellucid.runs.run import Run, build_model


def gradient_x_input(what: Explained) -> Pair:
    """x_i · ∂f/∂x_i of source [T, S] and prefix [T, T]."""
    places = torch.arange(what.count, device=what.source.device)
    return what.gradients_x_input(places, torch.ones_like(places, dtype=torch.float32))


def leave_one_out(what: Explained) -> Pair:
    """f(x) - f(x with x_i = 0) of source [T, S] and prefix [T, T]."""
    x, y = what.embeddings()
    length = len(x)

    def without(place: int) -> Pair:
        left = torch.cat([x, y])
        left[place] = 0
        return Pair(left[:length], left[length:])

    lost = what.values_of([Pair(x, y)]) - what.values_of(map(without, range(length + len(y))))  # [S + T, T]
    return Pair(lost[:length].T, lost[length:].T)


class Method(NamedTuple):
    """A way to find contributions.

    Attributes:
        adds_up: whether they are to add up to what is explained.
        most: log-probabilities times the tokens that each of them depends on, so that it takes seconds.
    """

    find: Callable[[Explained], Pair]
    adds_up: bool
    most: int


METHODS = {"gradient_x_input": Method(gradient_x_input, False, 40_000),
           "integrated_gradients": Method(integrated_gradients, True, 5_000),
           "leave_one_out": Method(leave_one_out, False, 40_000)}


def contributions(run: Run, text: str, output: Output | None = None, method: str = "gradient_x_input",
                  each_pass: Callable[[], None] = lambda: None) -> Contributions:
    """What each token contributes, in nats, in fp32.

    Args:
        output: what is written, as a text or as the ids of its tokens, or a label; what the model writes by itself, or
            the label that it gives, if left out.
        method: one of `METHODS`.
        each_pass: called before each pass through a model; what it raises ends the search for them.

    Raises:
        UserError: the run is a reader, the text is empty, both are too long to be looked at, the method, a token or the
            label is unknown.
    """
    if method not in METHODS:
        raise UserError(f"there is no method {method[:80]!r}", fix=f"choose {', '.join(METHODS)}")
    find, adds_up, most = METHODS[method]
    source = read(run, text)
    if isinstance(run.model, Classifier):
        label = chosen_label(label_probabilities(run, run.model, source.ids), output)
        target = Writing(label, np.asarray([run.tokenizers.labels.index(label)]), ())
    else:
        label, target = None, written(run, source) if output is None else write(run, output)
    ids = target.ids
    if len(ids) * (len(source.ids) + len(ids)) > most:
        raise UserError(f"{len(source.ids)} tokens and {len(ids)} are too many to find what each contributes",
                        fix="take a shorter text")
    assert not isinstance(run.model, Reader)
    with differentiable():
        what = explained(run.model, source.ids, ids, each_pass)
        with evaluating(run.model):
            found, whole = find(what), difference(what)
        fresh = build_model(run.config, run.tokenizers, run.config.seed + 1).to(what.source.device).eval()
        assert not isinstance(fresh, Reader)
        random = find(explained(fresh, source.ids, ids, each_pass))
    error = [float(one) if adds_up else None for one in found.sums - whole]
    return Contributions(method, source.names, target.read, target.names, target.text, label, found.source.tolist(),
                         found.prefix.tolist(), tuple(whole.tolist()), tuple(error), tuple(_share(found).tolist()),
                         random.source.tolist(), random.prefix.tolist())


def _share(found: Pair) -> Tensor:
    """[T], the source's part of the absolute contributions; 0 where there are none at all."""
    source, prefix = (part.abs().sum(1) for part in (found.source, found.prefix))
    return source / (source + prefix).clamp(min=torch.finfo(source.dtype).tiny)

