"""One image's heat map: places of the patch run through a network, in an order and with a precision that was asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from udfs.incremental import IncrementalNetwork
from udfs.occlusion._cost import CostModel
from udfs.occlusion._drill import Lattice
from udfs.occlusion._settings import HeatMap, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from optimizer.patches import UpdatePatches
    from udfs.handlers.torch import TorchModel
    from udfs.incremental import Views
    from udfs.occlusion._settings import Occlusion

__all__ = ["Elsewhere", "Occluder", "probabilities"]

Elsewhere: TypeAlias = (
    "Callable[[NDArray[np.float32], int, NDArray[np.bool_]], Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]]"
)
"""Computes some places of an image's heat map, as :meth:`Occluder.values` does."""

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
        self._occlusion, self._device = occlusion, model.device
        tau = occlusion.tau if occlusion.mode == "approximate" else 1.0
        self._network = IncrementalNetwork(model, occlusion.grid, threshold=tau)
        (self._output,) = model.graph.outputs

    @property
    def patches(self) -> UpdatePatches:
        """What a place changes in the network, and what it costs."""
        return self._network.patches

    @property
    def places(self) -> int:
        """How many times the patch is laid, over both stages of drill-down."""
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            return self._occlusion.grid.count
        return self._lattice.places(self._occlusion.fraction)

    def cost_model(self) -> CostModel:
        """Fit a line to what some places in the middle take, each worth as much as places are on average.

        Takes as long as a few batches do.
        """
        occlusion, grid = self._occlusion, self._occlusion.grid
        (source,) = self.patches.graph.inputs
        image = torch.zeros(1, *self.patches.graph[source].output_shape, device=self._device)
        whole = image.contiguous(memory_format=torch.channels_last)
        middle = tuple(extent // 2 for extent in grid.shape)
        worth = 1.0
        if occlusion.mode != "naive":
            patches = self.patches
            worth = (patches.flops(*middle) + patches.whole_flops) / (patches.mean_flops + patches.whole_flops)
        # The places nearest to the middle: one size of update patches, as most of the heat map has.
        rows, columns = (np.abs(np.arange(extent) - at) for extent, at in zip(grid.shape, middle, strict=True))
        order = np.argsort(np.add.outer(rows, columns), axis=None, kind="stable")
        measured = []
        for batches in (1, 1, 2, 3):  # the first warms up
            places = np.zeros(grid.count, np.bool_)
            places[order[: batches * occlusion.batch_size]] = True
            started = time.perf_counter()
            views = self._network.materialise(whole)
            for _ in self._results(whole, views, places.reshape(grid.shape)):
                pass
            measured.append((round(int(places.sum()) * worth), time.perf_counter() - started))
        return CostModel.fit(measured[1:])

    def heat_map(
        self,
        pixels: NDArray[np.float32],
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> HeatMap:
        """Lay the patch on every place of an image.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        target : int, optional
            The class whose probability counts; the predicted one by default.
        on_update : callable, optional
            Called with the heat map so far after each batch; what is not there yet is NaN.
        elsewhere : callable, optional
            What computes the places instead of :meth:`values`, with its parameters.

        Raises
        ------
        udfs.occlusion.TargetError
            No such class.
        """
        occlusion = self._occlusion
        whole = self._whole(pixels)
        views = self._network.materialise(whole)
        scores = probabilities(views.outputs[self._output])[0]
        predicted = int(scores.argmax())
        counted = predicted if target is None else target
        if not 0 <= counted < len(scores):
            raise TargetError(f"a class from 0 to {len(scores) - 1}, not {target!r}")
        values = np.full(occlusion.grid.shape, np.nan, np.float32)
        for places in self._stages(values):
            computed = (
                self._values(whole, views, counted, places) if elsewhere is None else elsewhere(pixels, counted, places)
            )
            for index, found in computed:
                values[tuple(index.T)] = found
                if on_update is not None:
                    on_update(values.copy())
        if occlusion.mode == "approximate" and occlusion.step > 1:
            values = self._lattice.filled(values).astype(np.float32)
            if on_update is not None:
                on_update(values.copy())
        return HeatMap(values, counted, predicted, float(scores[counted]))

    def values(
        self, pixels: NDArray[np.float32], target: int, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Lay the patch on some places of an image.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        target : int
        places : array of bool, of the heat map's shape

        Yields
        ------
        array of int64, of shape (positions, axes)
            Indices of the heat map.
        array of float32, of shape (positions,)
            What it has there.
        """
        whole = self._whole(pixels)
        yield from self._values(whole, self._network.materialise(whole), target, places)

    def _values(
        self, whole: torch.Tensor, views: Views, target: int, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        for index, outputs in self._results(whole, views, places):
            yield index, probabilities(outputs[self._output])[:, target].numpy(force=True)

    def _whole(self, pixels: NDArray[np.float32]) -> torch.Tensor:
        image = torch.from_numpy(pixels)[None].to(self._device)
        return image.contiguous(memory_format=torch.channels_last)

    def _results(
        self, whole: torch.Tensor, views: Views, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        fill, size = self._fill(whole), self._occlusion.batch_size
        if self._occlusion.mode == "naive":
            return self._network.naive(whole, fill, batch_size=size, places=places)
        return self._network.outputs(views, fill, batch_size=size, places=places)

    def _fill(self, whole: torch.Tensor) -> torch.Tensor:
        if self._occlusion.perturbation == "mean":
            return whole.mean(dim=(0, 2, 3))
        if self._occlusion.perturbation == "blur":
            sides = [extent - 1 + extent % 2 for extent in self._occlusion.grid.patch]  # odd: as much on both sides
            around = [side // 2 for side in sides]
            return functional.avg_pool2d(whole, sides, 1, around, count_include_pad=False)
        return torch.tensor(self._occlusion.fill, device=self._device)

    @property
    def _lattice(self) -> Lattice:
        rows, columns = self._occlusion.grid.shape
        return Lattice((rows, columns), self._occlusion.step)

    def _stages(self, values: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            yield np.ones(self._occlusion.grid.shape, np.bool_)
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
