"""Heat maps by any framework: the whole network for each place of the patch (Krypton, equations 6.5 and 6.6)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.occlusion import UpdatePatches, update_patches
from udfs.occlusion._cost import CostModel
from udfs.occlusion._settings import HeatMap, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import Framework, TracedModel
    from udfs.occlusion._settings import Occlusion

__all__ = ["NaiveOccluder", "open_occluder"]

# Sums of probabilities differ from 1 by the rounding of their terms.
_ROUNDING = 1e-4


def open_occluder(framework: Framework, model: TracedModel, occlusion: Occlusion) -> Any:
    """Open what makes heat maps: of parts of tensors where the framework computes them, else of whole networks.

    Parameters
    ----------
    framework : Framework
        That traced the model.
    model : TracedModel
        Prepared, of one output.
    occlusion : Occlusion
        Of the naive mode, unless the framework is incremental.
    """
    if not framework.incremental:
        return NaiveOccluder(model, occlusion)
    from udfs.occlusion.occluder import Occluder  # noqa: PLC0415 - imports torch, an optional extra

    traced: Any = model
    return Occluder(traced, occlusion)


@dataclass(frozen=True)
class _Opened:
    """One image and what the network says of it."""

    pixels: NDArray[np.float32]
    scores: NDArray[np.float32]


class NaiveOccluder:
    """Makes heat maps of images of one size, as :class:`udfs.occlusion.occluder.Occluder` does in the naive mode.

    Parameters
    ----------
    model : TracedModel
        Of one input and one output; channels first or last.
    occlusion : Occlusion

    Raises
    ------
    optimizer.occlusion.PatchError
        The network has another input than the grid's images.
    """

    def __init__(self, model: TracedModel, occlusion: Occlusion) -> None:
        self._model, self._occlusion = model, occlusion
        self.patches: UpdatePatches = update_patches(model.graph, occlusion.grid, known=())
        (self._output,) = model.graph.outputs

    @property
    def places(self) -> int:
        """How many times the patch is laid."""
        return self._occlusion.grid.count

    def cost_model(self) -> CostModel:
        """Fit a line to the seconds of a few batches."""
        spec = self.patches.graph[self.patches.source]
        image = self.opened(np.zeros(spec.output_shape, np.float32))
        measured = []
        for batches in (1, 1, 2, 3):  # the first warms up
            places = np.zeros(self._occlusion.grid.count, np.bool_)
            places[: batches * self._occlusion.batch_size] = True
            started = time.perf_counter()
            for _ in self.values(image, 0, places.reshape(self._occlusion.grid.shape)):
                pass
            measured.append((int(places.sum()), time.perf_counter() - started))
        return CostModel.fit(measured[1:])

    def opened(self, pixels: NDArray[np.float32]) -> _Opened:
        """Run the network once over an image, an array of the network's input."""
        return _Opened(pixels, self._scores(pixels[None])[0])

    def heat_map(
        self,
        image: _Opened,
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Callable[..., Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]] | None = None,
    ) -> HeatMap:
        """Lay the patch on every place of an image; see :meth:`udfs.occlusion.occluder.Occluder.heat_map`."""
        predicted = int(image.scores.argmax())
        counted = predicted if target is None else target
        if not 0 <= counted < len(image.scores):
            raise TargetError(f"a class from 0 to {len(image.scores) - 1}, not {target!r}")
        values = np.full(self._occlusion.grid.shape, np.nan, np.float32)
        places = np.ones(values.shape, np.bool_)
        computed = (
            self.values(image, counted, places) if elsewhere is None else elsewhere(image.pixels, counted, places)
        )
        for index, scores in computed:
            values[tuple(index.T)] = scores
            if on_update is not None:
                on_update(values.copy())
        return HeatMap(values, counted, predicted, float(image.scores[counted]))

    def values(
        self, image: _Opened, target: int, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Lay the patch on some places of an image; yields their indices and the target's probability at each."""
        grid, under = self._occlusion.grid, self._under(image.pixels)
        index = np.argwhere(places)
        starts = [grid.starts(axis) for axis in range(len(grid.image))]
        for first in range(0, len(index), self._occlusion.batch_size):
            part = index[first : first + self._occlusion.batch_size]
            batch = np.repeat(image.pixels[None], len(part), axis=0)
            for row, place in zip(batch, part, strict=True):
                begin = [int(start[at]) for start, at in zip(starts, place, strict=True)]
                covered = tuple(slice(at, at + extent) for at, extent in zip(begin, grid.patch, strict=True))
                at = covered if self._channels_last else (slice(None), *covered)
                row[at] = under[at]
            yield part, self._scores(batch)[:, target]

    @cached_property
    def _channels_last(self) -> bool:
        return self.patches.graph[self.patches.source].output_shape[1:] != self._occlusion.grid.image

    def _under(self, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
        """A whole image of what lies under the patch, wherever it is."""
        axes = tuple(range(len(self._occlusion.grid.image)))
        spatial = axes if self._channels_last else tuple(axis + 1 for axis in axes)
        if self._occlusion.perturbation == "blur":
            return _blurred(pixels, spatial, self._occlusion.grid.patch)
        if self._occlusion.perturbation == "mean":
            fill = pixels.mean(axis=spatial, keepdims=True)
        else:
            fill = np.expand_dims(np.array(self._occlusion.fill, np.float32), spatial)
        return np.broadcast_to(fill, pixels.shape).astype(np.float32)

    def _scores(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Probabilities of the classes: softmax, unless the network ends with one; a single output is a value."""
        outputs = self._model.run({self.patches.source: np.ascontiguousarray(batch)}, [self._output])[self._output]
        flat: NDArray[np.float32] = outputs.reshape(len(outputs), -1).astype(np.float32)
        if flat.shape[1] == 1 or (bool((flat >= 0).all()) and bool((np.abs(flat.sum(axis=1) - 1) < _ROUNDING).all())):
            return flat
        powers = np.exp(flat - flat.max(axis=1, keepdims=True))
        probabilities: NDArray[np.float32] = powers / powers.sum(axis=1, keepdims=True)
        return probabilities


def _blurred(pixels: NDArray[np.float32], spatial: Sequence[int], patch: Sequence[int]) -> NDArray[np.float32]:
    """Each pixel the mean of a neighbourhood of the patch's extent, an odd one; at the border, of what there is."""
    blurred = pixels.astype(np.float64)
    for axis, extent in zip(spatial, patch, strict=True):
        around, length = (extent - 1 + extent % 2) // 2, pixels.shape[axis]
        zero = np.zeros_like(blurred.take([0], axis))
        sums = np.concatenate([zero, blurred.cumsum(axis)], axis)
        first = np.maximum(np.arange(length) - around, 0)
        last = np.minimum(np.arange(length) + around + 1, length)
        counts = np.expand_dims(last - first, tuple(other for other in range(pixels.ndim) if other != axis))
        blurred = (sums.take(last, axis) - sums.take(first, axis)) / counts
    return blurred.astype(np.float32)
