"""Configurations of a search space."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from cerebro_spark.errors import InvalidArgumentError
from optimizer.procedures import plain, written_params
from optimizer.space import Space

__all__ = ["grid"]


def grid(space: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Any]] | Space) -> list[dict[str, Any]]:
    """List the configurations of a search space.

    The last name varies fastest. Scalars of numpy become Python's, and tuples stay tuples, on the workers too. Raise
    InvalidArgumentError if the space is empty, a configuration appears twice, or a value is not plain data: the run's
    record has a configuration as JSON.

    Examples
    --------
    >>> grid({"lr": [0.1, 0.01], "width": [8]})
    [{'lr': 0.1, 'width': 8}, {'lr': 0.01, 'width': 8}]
    """
    if isinstance(space, Space):
        return space.grid()
    if isinstance(space, Mapping):
        for name, values in space.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise InvalidArgumentError(
                    f"search_space[{name!r}] must be a list of values, got {values!r}. For a grid of domains give "
                    "search_space=Space(...)"
                )
            if not values:
                raise InvalidArgumentError(f"search_space[{name!r}] must have at least one value, got none")
        configurations = (
            [dict(zip(space, values, strict=True)) for values in itertools.product(*space.values())] if space else []
        )
    else:
        configurations = [dict(params) for params in space]
    if not configurations:
        raise InvalidArgumentError("search_space must have at least one configuration, got none")
    configurations = [plain(params) for params in configurations]
    seen: dict[str, int] = {}
    for number, params in enumerate(configurations):
        text = json.dumps(written_params(params), sort_keys=True)
        if text in seen:
            raise InvalidArgumentError(f"configurations {seen[text]} and {number} are the same: {params}")
        seen[text] = number
    return configurations
