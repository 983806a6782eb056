"""Input whose parts get an attribution: its groups of elements and its baselines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from udfs.attribution import baseline_of, groups_along, superpixels
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from vista_spark.attribution._attribution import Attribution

__all__ = ["AttributedInput", "Baseline", "Groups"]

Baseline: TypeAlias = str | float | NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]]
Groups: TypeAlias = str | NDArray[np.integer]

_GROUPS = ("channels", "elements", "segments")
_NAMED_BASELINES = {"mean": "the mean of each channel", "blur": "the blurred input"}


@dataclass(frozen=True)
class AttributedInput:
    """Inputs of a network by name, and the one whose parts get the attribution.

    ``inputs`` are without the axis of records; ``name`` is the attributed one, with its ``channels`` axis. ``fill`` are
    the values of the baseline ``"color"`` by channel, and ``color`` is that colour in words; ``default`` is the default
    baseline, ``groups`` the default groups. ``picture`` is the image as the network reads it. ``replacements`` are
    baselines of inputs that are replaced together with the attributed one, such as a text's mask.
    """

    inputs: Mapping[str, NDArray[Any]]
    name: str
    channels: int | None = None
    fill: tuple[float, ...] = (0.0,)
    default: str = "mean"
    picture: NDArray[np.uint8] | None = None
    color: str = ""
    groups: NDArray[np.integer] | None = None
    replacements: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def array(self) -> NDArray[Any]:
        """The attributed input."""
        return self.inputs[self.name]

    @property
    def place(self) -> int:
        """Index of the attributed input."""
        return list(self.inputs).index(self.name)

    @property
    def spatial(self) -> tuple[int, ...]:
        """Axes that are not channels."""
        return tuple(axis for axis in range(self.array.ndim) if axis != self.channels)

    def check_floats(self, method: str) -> None:
        """Raise ``InvalidArgumentError`` unless the input is of floats."""
        if not np.issubdtype(self.array.dtype, np.floating):
            raise InvalidArgumentError(
                f"input {self.name!r} must be floats for {method}, got {self.array.dtype}; use ablation or lime"
            )

    def group_numbers(self, groups: Groups | None) -> NDArray[np.integer]:
        """Return the number of each element's group, in a shape that broadcasts to the input's."""
        if groups is None and self.groups is not None:
            return self.groups
        if groups is None:
            groups = "segments" if self.picture is not None else "elements" if self.channels is None else "channels"
        if isinstance(groups, str):
            return self._named_groups(groups)
        numbers, shape = np.asarray(groups), self.array.shape
        if self.channels is not None and numbers.ndim == len(shape) - 1:
            numbers = np.expand_dims(numbers, self.channels)
        try:
            np.broadcast_to(numbers, shape)
        except ValueError:
            raise InvalidArgumentError(
                f"groups must have one number per element of an input of shape {shape}, got shape {np.shape(groups)}"
            ) from None
        return numbers

    def _named_groups(self, groups: str) -> NDArray[np.integer]:
        if groups == "segments" and self.picture is not None and self.channels is not None:
            return np.expand_dims(superpixels(self.picture), self.channels)
        if groups == "channels" and self.channels is not None:
            return groups_along(self.array.shape, self.channels)
        if groups == "elements":
            return groups_along(self.array.shape)
        reason = f"groups must be one of {', '.join(_GROUPS)} or an array of integers, got {groups!r}"
        if groups in _GROUPS:
            reason = f"groups must be an array of integers or another name, got {groups!r}, which this input has not"
        raise InvalidArgumentError(reason)

    def groups_by_input(self, numbers: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """Return the groups of every input; those replaced together with this one have its groups."""
        together = {self.name, *self.replacements}
        return [numbers if name in together else np.full(array.shape, -1) for name, array in self.inputs.items()]

    def baseline(self, baseline: Baseline | None) -> NDArray[Any]:
        """Return the content that replaces a part of the attributed input."""
        if baseline is None and self.name in self.replacements:
            return self.replacements[self.name]
        chosen = self.default if baseline is None else baseline
        if self.channels is None and isinstance(chosen, str) and chosen == "mean":
            raise InvalidArgumentError(
                "baseline must be an array for a row of columns, got the mean; pass the columns' means over your data, "
                "as baseline=rows.mean(axis=0), or for ablation some rows of it"
            )
        if self.picture is None and isinstance(chosen, str) and chosen == "color":
            raise InvalidArgumentError(
                'baseline must be a number, an array, "mean" or "blur", got "color", which only images have'
            )
        return baseline_of(chosen, self.array, self.spatial, fill=self.fill)

    def baselines(self, baseline: Baseline | None, *, draws: bool = False) -> list[NDArray[Any]]:
        """Return the baselines of all inputs; with `draws`, an array may have several along a first axis."""
        several = draws and isinstance(baseline, np.ndarray) and baseline.ndim == self.array.ndim + 1 and len(baseline)
        content = np.stack([self.baseline(row) for row in baseline]) if several else self.baseline(baseline)  # type: ignore[union-attr]
        return [
            content if name == self.name else self.replacements.get(name, array) for name, array in self.inputs.items()
        ]

    def changing_baselines(self, baseline: Baseline | None) -> list[NDArray[Any] | None]:
        """Return the baselines of the inputs that change; ``None`` for the others."""
        content = self.baseline(baseline)
        return [content if name == self.name else self.replacements.get(name) for name in self.inputs]

    def baseline_text(self, baseline: Baseline | None) -> str:
        """Describe a baseline."""
        chosen = self.default if baseline is None else baseline
        if callable(chosen):
            return f"the function {getattr(chosen, '__name__', type(chosen).__name__)}"
        if isinstance(chosen, np.ndarray):
            return f"an array of shape {chosen.shape}"
        if not isinstance(chosen, str):
            return f"{chosen} everywhere"
        if chosen == "color":
            return f"the colour {self.color} (red, green, blue)"
        return _NAMED_BASELINES.get(chosen, chosen)

    def broadcast_values(self, attribution: Attribution) -> NDArray[np.floating]:
        """Return an attribution's values in a shape that broadcasts to the input's."""
        shape, values = self.array.shape, attribution.values
        if self.channels is not None and values.shape == tuple(shape[axis] for axis in self.spatial):
            return np.expand_dims(values, self.channels)
        if values.shape != shape:
            raise InvalidArgumentError(f"attribution must have the input's shape {shape}, got {values.shape}")
        return values

    def without_channels(self, values: NDArray[np.float64], groups: NDArray[np.integer] | None) -> NDArray[np.float64]:
        """Drop the axis of channels where the groups do not distinguish channels."""
        together = groups is not None and self.channels is not None and groups.shape[self.channels] == 1
        if together and values.ndim == self.array.ndim and self.channels is not None:
            return np.take(values, [0], self.channels).squeeze(self.channels)
        return values
