"""One image's heat map: places of the patch run through a network, in an order and with a precision that was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from udfs.incremental import IncrementalNetwork
from udfs.occlusion._drill import Lattice
from udfs.occlusion._settings import HeatMap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optimizer.patches import UpdatePatches
    from udfs.handlers.torch import TorchModel
    from udfs.occlusion._settings import Occlusion

__all__ = ["Occluder", "probabilities"]

# Sums of probabilities differ from 1 by the rounding of their terms.
_ROUNDING = 1e-4


class Occluder:
    """Makes heat maps of images of one size by one network.

    Parameters
    ----------
    model : TorchModel
        Of one output; traced and prepared.
    occlusion : Occlusion

    Raises
    ------
    optimizer.patches.PatchError
        The network has another input than the grid's images.
    """

    def __init__(self, model: TorchModel, occlusion: Occlusion) -> None:
        self._occlusion = occlusion
        tau = occlusion.tau if occlusion.mode == "approximate" else 1.0
        self._network = IncrementalNetwork(model, occlusion.grid, threshold=tau)
        (self._output,) = model.graph.outputs

    @property
    def patches(self) -> UpdatePatches:
        """What a place changes in the network, and what it costs."""
        return self._network.patches

    def heat_map(
        self,
        pixels: NDArray[np.float32],
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
    ) -> HeatMap:
        """Lay the patch on every place of an image.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        target : int, optional
            The class whose probability counts; the predicted one by default.
        on_update : callable, optional
            Called with the heat map so far after each batch; what is not there yet is NaN.

        Raises
        ------
        IndexError
            No such class.
        """
        occlusion = self._occlusion
        whole = torch.from_numpy(pixels)[None].contiguous(memory_format=torch.channels_last)
        views = self._network.materialise(whole)
        scores = probabilities(views.outputs[self._output])[0]
        predicted = int(scores.argmax())
        counted = predicted if target is None else target
        if not 0 <= counted < len(scores):
            raise IndexError(f"class {target!r} of a network that tells {len(scores)}, from 0 on")
        values = np.full(occlusion.grid.shape, np.nan, np.float32)
        fill, size = torch.tensor(occlusion.fill), occlusion.batch_size

        def run(places: NDArray[np.bool_] | None) -> None:
            results = (
                self._network.naive(whole, fill, batch_size=size, places=places)
                if occlusion.mode == "naive"
                else self._network.outputs(views, fill, batch_size=size, places=places)
            )
            for index, outputs in results:
                values[tuple(index.T)] = probabilities(outputs[self._output])[:, counted].numpy(force=True)
                if on_update is not None:
                    on_update(values.copy())

        for places in self._stages(values):
            run(places)
        if occlusion.mode == "approximate" and occlusion.step > 1:
            values = self._lattice.filled(values).astype(np.float32)
            if on_update is not None:
                on_update(values.copy())
        return HeatMap(values, counted, predicted, float(scores[counted]))

    @property
    def _lattice(self) -> Lattice:
        rows, columns = self._occlusion.grid.shape
        return Lattice((rows, columns), self._occlusion.step)

    def _stages(self, values: NDArray[np.float32]) -> Iterator[NDArray[np.bool_] | None]:
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            yield None
            return
        yield self._lattice.first
        yield self._lattice.second(values, self._occlusion.fraction)


def probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """What a network's outputs say of the classes: softmax, unless it ends with one; a single output is a value.

    Parameters
    ----------
    outputs : tensor of shape (images, ...)
    """
    flat = outputs.detach().reshape(len(outputs), -1)
    sums = flat.sum(dim=1)
    if flat.shape[1] == 1 or (bool((flat >= 0).all()) and bool(((sums - 1).abs() < _ROUNDING).all())):
        return flat
    return flat.softmax(dim=1)
