"""Translation of search spaces and configurations to Optuna parameters."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError, nearest
from optimizer.procedures.studies._optuna import load_optuna
from optimizer.space import SpaceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.space import Dimension, Space

__all__ = ["Translation"]

# Optuna adds steps in floats: its 0.30000000000000004 is our 0.3.
_NEAR = 1e-9


class Translation:
    """Search space in Optuna's terms, with a parameter for each live dimension.

    A parameter has the dimension's name, ``"channels"``, or its path where branches share the name,
    ``"net[cnn].channels"``. Constants are not parameters. Optuna has no conditions, so a dimension that is not live is
    not suggested.
    """

    def __init__(self, space: Space) -> None:
        self.space = space
        count = Counter(dimension.name for dimension in space.dimensions)
        self.names = {
            dimension.path: dimension.name if count[dimension.name] == 1 else dimension.path
            for dimension in space.dimensions
        }
        self._by_path = {dimension.path: dimension for dimension in space.dimensions}
        self._distributions = {
            dimension.path: _distribution(load_optuna("a study").distributions, dimension)
            for dimension in space.dimensions
        }

    def suggest(self, trial: Any) -> dict[str, Any]:
        """Build a configuration from the suggestions of an Optuna trial, one live dimension after the other."""

        def chosen(dimension: Dimension) -> Any:
            name = self.names[dimension.path]
            if dimension.choices is not None:
                labels = _labels(dimension)
                return dimension.choices[labels.index(trial.suggest_categorical(name, labels))]
            low, high = dimension.low, _high(dimension)
            if dimension.integral:
                value = trial.suggest_int(name, low, high, step=dimension.step or 1, log=dimension.log)
            else:
                value = trial.suggest_float(name, low, high, step=dimension.step, log=dimension.log)
            return dimension.nearest(value)

        return self.space.build(chosen)

    def parameters(self, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the Optuna parameters of a configuration, and their distributions.

        Raises
        ------
        SpaceError
            The configuration does not belong to the space.
        """
        values = self.space.values(params)
        return (
            {self.names[path]: _label(self._by_path[path], value) for path, value in values.items()},
            {self.names[path]: self._distributions[path] for path in values},
        )

    def configuration(self, trial: Any) -> dict[str, Any]:
        """Return the configuration of an Optuna trial of the same parameters.

        Raises
        ------
        InvalidArgumentError
            The trial has other parameters, or a value outside the space.
        """
        used = set()

        def chosen(dimension: Dimension) -> Any:
            name = self.names[dimension.path]
            if name not in trial.params:
                raise InvalidArgumentError(
                    f"trial {trial.number} of the study must have the parameter {name!r}, got "
                    f"{', '.join(trial.params) or 'none'}{nearest(name, trial.params)}"
                )
            used.add(name)
            value = trial.params[name]
            if dimension.choices is None:
                near = dimension.nearest(value)
                return (
                    near if math.isclose(near, value, rel_tol=_NEAR, abs_tol=_NEAR * (dimension.step or 0)) else value
                )
            labels = _labels(dimension)
            # Other studies may have the options themselves instead of labels.
            return dimension.choices[labels.index(value)] if value in labels else value

        try:
            params = self.space.build(chosen)
            self.space.check(params)
        except SpaceError as error:
            raise InvalidArgumentError(
                f"trial {trial.number} of the study must belong to the search space: {error}"
            ) from error
        if unknown := sorted(trial.params.keys() - used):
            names = ", ".join(self.names.values())
            raise InvalidArgumentError(
                f"trial {trial.number} of the study must have parameters of the search space, {names}, got "
                f"{unknown[0]!r}{nearest(unknown[0], self.names)}"
            )
        return params


def _labels(dimension: Dimension) -> tuple[Any, ...]:
    """Return the options of a choice, as text where Optuna confuses two of them, such as 1 and True."""
    options = dimension.choices or ()
    return options if len(set(options)) == len(options) else tuple(map(repr, options))


def _label(dimension: Dimension, value: Any) -> Any:
    if dimension.choices is None:
        return value
    place = next(
        place
        for place, option in enumerate(dimension.choices)
        if option == value and isinstance(option, bool) == isinstance(value, bool)
    )
    return _labels(dimension)[place]


def _high(dimension: Dimension) -> float:
    """Return the largest value on a step: Optuna warns about other upper bounds."""
    assert dimension.high is not None
    return dimension.nearest(dimension.high)


def _distribution(distributions: Any, dimension: Dimension) -> Any:
    if dimension.choices is not None:
        return distributions.CategoricalDistribution(_labels(dimension))
    if dimension.integral:
        return distributions.IntDistribution(
            dimension.low, _high(dimension), log=dimension.log, step=dimension.step or 1
        )
    return distributions.FloatDistribution(dimension.low, _high(dimension), log=dimension.log, step=dimension.step)
