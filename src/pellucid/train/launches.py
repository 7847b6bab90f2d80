"""What an update does on a GPU, launched at once: recorded when it is computed for the second time, of batches of the
same sizes, and launched from then on.

An update of a small model is a thousand small launches, which take a processor fifty milliseconds and a GPU less than
five. The batches of an epoch have the sizes of those of the epoch before, for they are sorted by length (see
data/batching.py): so each is recorded once. What is recorded are the equations as they stand.
"""

import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.errors import PellucidWarning
from pellucid.kernels.gpu import Launch, first_line, recorder, renewed

Input = Tensor | float | None
Work = Callable[..., Any]  # of tensors, what it is given: a tensor or None
MOST = 512  # recordings that are kept; of a small model each takes some megabytes


def tell_of(fault: str) -> None:
    """Says why a GPU is not as fast as it could be."""
    warnings.warn(f"a GPU waits for its updates, which are launched piece by piece: {fault}", PellucidWarning,
                  stacklevel=2)


class OneByOne:
    """Every launch by itself, as torch does it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def __call__(self, key: Hashable, work: Work, inputs: Sequence[Input] = ()) -> Any:
        """What `work` makes of the inputs, moved to the device.

        Args:
            key: of work that does the same for inputs of the same sizes, but for what is in them; None for work that
                somebody watches.
        """
        return work(*[each.to(self.device) if isinstance(each, Tensor) else each for each in inputs])

    def add_gradients(self, loss: Tensor, parameters: Sequence[Tensor]) -> None:
        """Those of the loss, to those that are there."""
        torch.autograd.backward(loss)

    def clear(self, parameters: Sequence[Tensor]) -> None:
        """Gradients begin anew."""
        for parameter in parameters:
            parameter.grad = None


class AtOnce(OneByOne):
    """Recorded work. Gradients stay where they are: what is recorded knows places in memory.

    Args:
        record: see `gpu.recorder`.

    Attributes:
        fault: why nothing is recorded any more, if nothing is.
    """

    def __init__(self, device: torch.device, record: Callable[[Launch], Launch] | None = None) -> None:
        super().__init__(device)
        self.fault: str | None = None
        self._known: dict[Hashable, _Recorded | None] = {}  # None: computed once
        self._record, self._renewed = record, renewed()
        try:
            self._record = record or recorder()
            fault = self._trial()
        except Exception as error:  # of a driver or a card: of any type
            fault = f"nothing can be recorded here ({first_line(error)})"
        if fault and not self.fault:
            self._give_up(fault)

    def __call__(self, key: Hashable, work: Work, inputs: Sequence[Input] = ()) -> Any:
        """As above; numbers become tensors, so that they may be others next time."""
        sizes = ((each.shape, each.dtype) if isinstance(each, Tensor) else each is None for each in inputs)
        if self._record is None or key is None:
            return work(*self._placed(inputs))
        if self._renewed != renewed():  # by a recording of somebody else that failed
            self._known.clear()
            self._renewed = renewed()
        if (key := (key, *sizes)) not in self._known:
            if len(self._known) == MOST:
                self._known.clear()
            self._known[key] = None
            return work(*self._placed(inputs))
        fault = ""
        if (known := self._known[key]) is None:
            try:
                known = self._known[key] = _Recorded(work, self._placed(inputs), self._record)
            except Exception as error:
                fault = f"it cannot be recorded ({first_line(error)})"
        if known is None:  # here, where the memory of what failed is free again
            self._give_up(fault)
            return work(*self._placed(inputs))
        return known(inputs)

    def add_gradients(self, loss: Tensor, parameters: Sequence[Tensor]) -> None:
        """As above, in a few launches."""
        made = torch.autograd.grad(loss, parameters, allow_unused=True)
        held: list[Tensor] = []
        for parameter, gradient in zip(parameters, made, strict=True):
            if parameter.grad is None and gradient is not None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad is not None and gradient is not None:
                held.append(parameter.grad)
        torch._foreach_add_(held, [gradient for gradient in made if gradient is not None])

    def clear(self, parameters: Sequence[Tensor]) -> None:
        """Gradients begin anew, in the same place."""
        torch._foreach_zero_([p.grad for p in parameters if p.grad is not None])

    def _give_up(self, fault: str) -> None:
        self._known.clear()
        self._record = None  # and the memory of what was recorded is free
        self.fault = fault
        tell_of(fault)

    def _placed(self, inputs: Sequence[Input]) -> list[Tensor | None]:
        return [None if each is None else torch.as_tensor(each, device=self.device).clone() for each in inputs]

    def _trial(self) -> str | None:
        """Whether dropout and gradients, recorded, are what they are one by one."""
        weight = torch.eye(8, device=self.device, requires_grad=True)

        def work(scale: Tensor, x: Tensor) -> Tensor:
            y = torch.nn.functional.dropout(x @ weight * scale, 0.5)
            torch.autograd.backward(y.square().sum())
            return y.detach()

        found: list[list[Tensor]] = [[], []]
        for number in range(4):
            x = torch.arange(64.0).view(8, 8) + number
            for launch, kept in zip((self, OneByOne(self.device)), found, strict=True):
                torch.manual_seed(number)
                kept.append(launch("trial", work, [0.5 + number, x]).clone())
                assert weight.grad is not None
                kept.append(weight.grad.clone())
                weight.grad.zero_()
        self._known.clear()
        is_same = all(torch.allclose(one, other) for one, other in zip(*found, strict=True))
        return None if is_same else "what is recorded differs here from what is launched one by one"


class _Recorded:
    """Work on inputs in places of their own."""

    def __init__(self, work: Work, inputs: list[Tensor | None], record: Callable[[Launch], Launch]) -> None:
        self._inputs = inputs
        self._made: Tensor | None = None

        def launch() -> None:
            self._made = work(*inputs)

        self._launch = record(launch)

    def __call__(self, inputs: Sequence[Input]) -> Tensor | None:
        for held, new in zip(self._inputs, inputs, strict=True):
            if held is not None and new is not None:
                held.copy_(new) if isinstance(new, Tensor) else held.fill_(new)
        self._launch()
        return None if self._made is None else self._made.clone()
