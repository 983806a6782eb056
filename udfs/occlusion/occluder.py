"""The heat map of one image or other tensor: places of the patch, in an order and a precision that were asked for."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch.nn import functional

from udfs.incremental import IncrementalNetwork
from udfs.occlusion._cost import CostModel
from udfs.occlusion._drill import Lattice
from udfs.occlusion._settings import HeatMap, TargetError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

    from optimizer.occlusion import UpdatePatches
    from udfs.handlers.torch import TorchModel
    from udfs.incremental import Views
    from udfs.occlusion._settings import Occlusion

__all__ = ["Elsewhere", "Occluder", "Opened", "probabilities"]

Elsewhere: TypeAlias = (
    "Callable[[NDArray[np.float32], int, NDArray[np.bool_]], Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]]"
)
"""A function of pixels, a class and places of the heat map that yields as :meth:`Occluder.values` does."""

# Sums of probabilities differ from 1 by the rounding of their terms.
_ROUNDING = 1e-4

# Axes of a batch of images.
_IMAGE = 4


@dataclass(frozen=True)
class Opened:
    """One image on the device, and its views: for all occluders of one network. Made by :meth:`Occluder.opened`.

    Attributes
    ----------
    pixels : array of float32
    whole : tensor of shape (1, channels, ...)
    beside : mapping of str to tensor of shape (1, ...)
        The network's other inputs.
    views : Views
    """

    pixels: NDArray[np.float32]
    whole: torch.Tensor
    beside: Mapping[str, torch.Tensor]
    views: Views


class Occluder:
    """Makes heat maps of images of one size by one network.

    Parameters
    ----------
    model : TorchModel
        Of one output; traced and prepared.
    occlusion : Occlusion
    source : str, optional
        The input that the patch is laid on, of a network of several.

    Raises
    ------
    optimizer.occlusion.PatchError
        The network has another input than the grid's images, or several and none is chosen.
    """

    def __init__(self, model: TorchModel, occlusion: Occlusion, source: str | None = None) -> None:
        self._occlusion, self._device = occlusion, model.device
        tau = occlusion.tau if occlusion.mode == "approximate" else 1.0
        self._network = IncrementalNetwork(
            model, occlusion.grid, threshold=tau, source=source, bfloat16=occlusion.in_bfloat16
        )
        (self._output,) = model.graph.outputs

    @property
    def patches(self) -> UpdatePatches:
        """Changes that a place makes in the network, and their cost."""
        return self._network.patches

    @property
    def places(self) -> int:
        """Number of places of the patch, over both stages of drill-down."""
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            return self._occlusion.grid.count
        return self._lattice.places(self._occlusion.fraction)

    def cost_model(self) -> CostModel:
        """Fit a line to what some places in the middle take, each worth as much as places are on average.

        Takes as long as a few batches do.
        """
        occlusion, grid = self._occlusion, self._occlusion.grid
        shape = self.patches.graph[self.patches.source].output_shape
        pixels = np.zeros(shape, np.float32)
        middle = tuple(extent // 2 for extent in grid.shape)
        worth = 1.0
        if occlusion.mode != "naive":
            patches = self.patches
            worth = (patches.flops(*middle) + patches.whole_flops) / (patches.mean_flops + patches.whole_flops)
        # The places nearest to the middle: one size of update patches, as most of the heat map has.
        offsets = np.indices(grid.shape) - np.reshape(middle, (-1, *(1,) * len(middle)))
        order = np.argsort(np.abs(offsets).sum(axis=0), axis=None, kind="stable")
        measured = []
        for batches in (1, 1, 2, 3):  # the first warms up
            places = np.zeros(grid.count, np.bool_)
            places[order[: batches * occlusion.batch_size]] = True
            started = time.perf_counter()
            for _ in self._results(self.opened(pixels), places.reshape(grid.shape)):
                pass
            measured.append((round(int(places.sum()) * worth), time.perf_counter() - started))
        return CostModel.fit(measured[1:])

    def opened(self, pixels: NDArray[np.float32], others: Mapping[str, NDArray[np.generic]] | None = None) -> Opened:
        """Run the network once over an image.

        Parameters
        ----------
        pixels : array of float32, of the network's input
        others : mapping of str to array, optional
            The network's other inputs, without the axis of records.
        """
        whole = torch.from_numpy(pixels)[None].to(self._device)
        if whole.dim() == _IMAGE:
            whole = whole.contiguous(memory_format=torch.channels_last)
        beside = {name: torch.from_numpy(array)[None].to(self._device) for name, array in (others or {}).items()}
        return Opened(pixels, whole, beside, self._network.materialise(whole, beside))

    def heat_map(
        self,
        image: Opened,
        target: int | None = None,
        on_update: Callable[[NDArray[np.float32]], object] | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> HeatMap:
        """Lay the patch on every place of an image.

        Parameters
        ----------
        image : Opened
            By any occluder of the network, whatever its patch and mode, that computes in the same precision.
        target : int, optional
            The class whose probability counts; the predicted one by default.
        on_update : callable, optional
            Called with the heat map so far after each batch; what is not there yet is NaN.
        elsewhere : callable, optional
            What computes the places instead of this process.

        Raises
        ------
        udfs.occlusion.TargetError
            No such class.
        """
        occlusion = self._occlusion
        scores = probabilities(image.views.outputs[self._output])[0]
        predicted = int(scores.argmax())
        counted = predicted if target is None else target
        if not 0 <= counted < len(scores):
            raise TargetError(f"a class from 0 to {len(scores) - 1}, not {target!r}")
        values = np.full(occlusion.grid.shape, np.nan, np.float32)
        for places in self._stages(values):
            computed = (
                self.values(image, counted, places) if elsewhere is None else elsewhere(image.pixels, counted, places)
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
        self, image: Opened, target: int, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Lay the patch on some places of an image.

        Parameters
        ----------
        image : Opened
        target : int
        places : array of bool, of the heat map's shape

        Yields
        ------
        array of int64, of shape (positions, axes)
            Indices of the heat map.
        array of float32, of shape (positions,)
            What it has there.
        """
        whole, computed = (probabilities(of[self._output])[0] for of in (image.views.outputs, image.views.computed))
        for index, outputs in self._results(image, places):
            scores = probabilities(outputs[self._output])[:, target]
            if self._occlusion.in_bfloat16:
                # Rounding the weights moves all places alike, and the image without a patch as much.
                scores = scores + (whole - computed)[target]
                scores = scores.clamp(0, 1) if len(whole) > 1 else scores
            yield index, scores.numpy(force=True)

    def _results(
        self, image: Opened, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        fill, size = self._fill(image.whole), self._occlusion.batch_size
        if self._occlusion.mode == "naive":
            return self._network.naive(image.whole, fill, batch_size=size, places=places, others=image.beside)
        return self._network.outputs(image.views, fill, batch_size=size, places=places)

    def _fill(self, whole: torch.Tensor) -> torch.Tensor:
        if self._occlusion.perturbation == "mean":
            return whole.mean(dim=(0, *range(2, whole.dim())))
        if self._occlusion.perturbation == "blur":
            sides = [extent - 1 + extent % 2 for extent in self._occlusion.grid.patch]  # odd: as much on both sides
            around = [side // 2 for side in sides]
            mean = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[len(sides) - 1]
            return mean(whole, sides, 1, around, count_include_pad=False)
        return torch.tensor(self._occlusion.fill, device=self._device)

    @property
    def _lattice(self) -> Lattice:
        return Lattice(self._occlusion.grid, self._occlusion.step)

    def _stages(self, values: NDArray[np.float32]) -> Iterator[NDArray[np.bool_]]:
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            yield np.ones(self._occlusion.grid.shape, np.bool_)
            return
        yield self._lattice.first
        yield self._lattice.second(values, self._occlusion.fraction)


def probabilities(outputs: torch.Tensor) -> torch.Tensor:
    """Turn a network's outputs into probabilities: softmax, unless it ends with one; a single output is a value.

    Parameters
    ----------
    outputs : tensor of shape (images, ...)
    """
    flat = outputs.detach().reshape(len(outputs), -1).float()
    sums = flat.sum(dim=1)
    if flat.shape[1] == 1 or (bool((flat >= 0).all()) and bool(((sums - 1).abs() < _ROUNDING).all())):
        return flat
    return flat.softmax(dim=1)
