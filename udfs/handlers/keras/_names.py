"""Names for the values of a captured Keras model: the same in each process that builds the same model."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import keras

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.handlers.keras._capture import Capture, Step

__all__ = ["operation", "value_names"]

_AUTOMATIC = re.compile(r"(input_layer|keras_tensor)(_\d+)?")


def value_names(captured: Capture) -> list[str]:
    """Name each value readably and uniquely.

    The value of a layer is named by the path of the layer; the value of its second call ends in ``_1``. Keras numbers
    functions and unnamed inputs per process, so they are renumbered per model. If a call returns several values, their
    names end in the index: ``"split.0"``.
    """
    names: dict[int, str] = {}
    used: set[str] = set()
    unnamed = _unique(used)

    for position, index in enumerate(captured.inputs, start=1):
        history = getattr(captured.symbols[index], "_keras_history", None)
        base = str(history.operation.name if history else captured.symbols[index].name)
        names[index] = unnamed(f"input_{position}" if _AUTOMATIC.fullmatch(base) else base)
    # The first calls first: the second call of `fc` must not take the name of a layer `fc_1`.
    first: dict[str, Step] = {}
    for step in captured.steps:
        if _is_layer(step):
            first.setdefault(step.path, step)
    for leading in (True, False):
        for step in captured.steps:
            if (first.get(step.path) is step) is not leading:
                continue
            wanted = step.path if _is_layer(step) else f"{step.path.rpartition('/')[0]}/{operation(step)}".lstrip("/")
            if len(step.writes) == 1:
                names[step.writes[0]] = unnamed(wanted)
                continue
            for place, index in enumerate(step.writes):
                names[index] = unnamed(f"{wanted}.{place}")
    return [names[index] for index in range(len(captured.symbols))]


def operation(step: Step) -> str:
    """Name what a step calls: the class of a layer, the function's own name of a function."""
    kind = type(step.operation).__name__
    return kind if _is_layer(step) else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()


def _is_layer(step: Step) -> bool:
    return isinstance(step.operation, keras.Layer)


def _unique(used: set[str]) -> Callable[[str], str]:
    def name(wanted: str) -> str:
        free, copies = wanted, 0
        while free in used:
            copies += 1
            free = f"{wanted}_{copies}"
        used.add(free)
        return free

    return name
