"""What decodes fast with one model, by how it is to decode. Imports no torch before one is needed."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING, TypeVar, cast

from pellucid.engine.frozen import Refusal

if TYPE_CHECKING:
    from pellucid.engine.engine import Engine
    from pellucid.engine.graphed_step import GraphedStep
    from pellucid.engine.snapshot import Snapshot
    from pellucid.model.transformer import Transformer

Made = TypeVar("Made")


class Engines:
    """The engines of a model as it is now by precision, and its recorded steps on a GPU, each made when it is first
    needed. They belong to whoever decodes, never to the model: a copy of it carries none.

    Attributes:
        is_held: whether somebody else has the model, and may change it between two calls: then every call compares it
            with what these were made of, which takes a copy of the weights, and as long as reading them twice.
    """

    def __init__(self, is_held: bool = False) -> None:
        self.is_held = is_held
        self._made: dict[Hashable, object] = {}
        self._made_of: Snapshot | None = None
        self._known: Transformer | None = None  # which had no obstacle
        self._making = Lock()

    def of(self, model: Transformer, precision: str) -> Engine:
        """The engine for the model as it is now.

        Raises:
            Refusal: the engine does not know such a model, or not here.
        """
        from pellucid.engine.engine import Engine
        from pellucid.engine.obstacle import obstacle, obstacle_now
        from pellucid.precision import resolve_packed

        unknown = self.is_held or self._known is not model
        if (reason := obstacle(model) if unknown else obstacle_now(model)) is not None:
            raise Refusal(reason)
        self._known = model
        precision = resolve_packed(precision, model.output.weight.device)
        return self._as_it_is(model, precision, lambda: Engine(model, precision))

    def recorded(self, model: Transformer, precision: str, beams: int) -> tuple[GraphedStep, str]:
        """The recorded steps of the model as it is now, for so many beams, and the precision of their products.

        Raises:
            Refusal: they cannot be recorded, or not here.
        """
        from pellucid.engine.graphed_step import GraphedStep, against_recording
        from pellucid.precision import resolve_packed

        if (reason := against_recording(model)) is not None:
            raise Refusal(reason)
        precision = resolve_packed("auto" if precision == "int8" else precision, model.output.weight.device)
        made = self._as_it_is(model, (precision, beams), lambda: GraphedStep(model, precision, beams))
        if made.fault is not None:
            raise Refusal(made.fault)
        return made, precision

    def _as_it_is(self, model: Transformer, key: Hashable, make: Callable[[], Made]) -> Made:
        """What has been made of the model, unless it has changed since; else made now."""
        from pellucid.engine.snapshot import Snapshot

        with self._making:
            if self.is_held and not (self._made_of and self._made_of.shows(model)):
                self._made, self._made_of = {}, Snapshot(model)
            if key not in self._made:
                self._made[key] = make()
            return cast(Made, self._made[key])
