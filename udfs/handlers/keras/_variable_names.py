"""Names of the variables of a Keras model that do not depend on the models that the process built before."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["variable_names"]


def variable_names(model: Any, variables: Sequence[Any]) -> list[str]:
    """Return the paths of variables, in which Keras's automatic names of layers are numbered within the model.

    Keras numbers the layers without a name through the whole process: the first dense layer of a second model is
    ``dense_2``. Here it is ``dense#0`` in every model, and the layers of ``Bidirectional`` are ``forward_gru#0`` and
    ``backward_gru#0``. Names by the user stay. Variables that are no weights, such as the states of seed generators,
    have the name ``""``.
    """
    weights = {id(variable) for variable in model.weights}
    numbered: dict[str, str] = {}
    counts: dict[str, int] = {}
    for layer in (model, *model._flatten_layers(include_self=False)):
        pattern = rf"((?:forward_|backward_)?{re.escape(_snake_case(type(layer).__name__))})(_\d+)?"
        match = re.fullmatch(pattern, layer.name)
        if match and layer.name not in numbered:
            automatic = match[1]
            numbered[layer.name] = f"{automatic}#{counts.setdefault(automatic, 0)}"
            counts[automatic] += 1
    return [
        "/".join(numbered.get(part, part) for part in variable.path.split("/")) if id(variable) in weights else ""
        for variable in variables
    ]


def _snake_case(name: str) -> str:
    """Convert the name of a class as Keras does for automatic names."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", re.sub(r"\W+", "", name))
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
