"""Heat maps with any framework: the whole network runs for each place (Krypton, equations 6.5 and 6.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.occlusion import UpdatePatches, update_patches
from udfs.attribution import baseline_of
from udfs.occlusion._heat_maps import HeatMaps, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.handlers import Framework, TracedModel
    from udfs.occlusion._occlusion import Occlusion
    from udfs.occlusion._score import SettledScore

__all__ = ["NaiveOccluder", "open_occluder"]


def open_occluder(
    framework: Framework, model: TracedModel, occlusion: Occlusion, source: str | None = None
) -> HeatMaps:
    """Open the occluder of a prepared network: incremental if the framework computes parts of tensors, else naive."""
    if not framework.incremental:
        return NaiveOccluder(model, occlusion, source)
    from udfs.occlusion.occluder import Occluder  # imports torch, an optional extra

    traced: Any = model
    return Occluder(traced, occlusion, source)


@dataclass(frozen=True)
class _Opened:
    """Image and the network's output for it."""

    pixels: NDArray[np.float32]
    beside: Mapping[str, NDArray[Any]]
    whole: NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the image and the output."""
        return self.pixels.nbytes + self.whole.nbytes


class NaiveOccluder(HeatMaps):
    """Occluder of any framework, as :class:`udfs.occlusion.occluder.Occluder` is in the naive mode.

    Raises
    ------
    optimizer.occlusion.PatchError
        The network has another input than the grid's images, or several and none is chosen.
    """

    def __init__(self, model: TracedModel, occlusion: Occlusion, source: str | None = None) -> None:
        super().__init__(model, occlusion)
        self.patches: UpdatePatches = update_patches(model.graph, occlusion.grid, known=(), source=source)

    @property
    def places(self) -> int:
        """Number of places of the patch."""
        return self._occlusion.grid.count

    def opened(self, pixels: NDArray[np.float32], others: Mapping[str, NDArray[Any]] | None = None) -> _Opened:
        """Run the network once over an image; see :meth:`udfs.occlusion.occluder.Occluder.opened`."""
        beside = {name: array[None] for name, array in (others or {}).items()}
        return _Opened(pixels, beside, self._run(pixels[None], beside))

    def whole(self, image: _Opened) -> NDArray[Any]:
        """Return the network's output for the image without a patch."""
        return image.whole

    def values(self, image: _Opened, score: SettledScore, targets: Sequence[int], places: NDArray[np.bool_]) -> Values:
        """Cover some places of an image with the patch; see :meth:`HeatMaps.values`."""
        for index, outputs in self._results(image, places):
            yield index, score(outputs)[:, targets]

    def _results(self, image: _Opened, places: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
        under, index = self.under(image), np.argwhere(places)
        for first in range(0, len(index), self._occlusion.batch_size):
            part = index[first : first + self._occlusion.batch_size]
            batch = np.repeat(image.pixels[None], len(part), axis=0)
            for row, place in zip(batch, part, strict=True):
                covered = self.covered(tuple(place))
                row[covered] = under[covered]
            yield part, self._run(batch, image.beside)

    def run_original(self, image: _Opened, pixels: NDArray[np.float32]) -> NDArray[Any]:
        """Run the network for one input."""
        return self._run(pixels[None], image.beside)

    def under(self, image: _Opened) -> NDArray[np.float32]:
        """Return the content of the patch at every place."""
        pixels = image.pixels
        axes = tuple(range(len(self._occlusion.grid.image)))
        spatial = axes if self.channels_last else tuple(axis + 1 for axis in axes)
        grid, fill = self._occlusion.grid, self._occlusion.fill
        return baseline_of(self._occlusion.perturbation, pixels, spatial, fill=fill, window=grid.patch)

    def _run(self, batch: NDArray[np.float32], beside: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
        feeds = {name: np.repeat(array, len(batch), axis=0) for name, array in beside.items()}
        feeds[self.patches.source] = np.ascontiguousarray(batch)
        outputs: NDArray[Any] = self._model.run(feeds, [self._head])[self._head]
        return outputs
