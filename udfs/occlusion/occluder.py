"""Occluder of PyTorch networks: heat maps of one image or other tensor, incremental or naive."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.nn import functional

from udfs.handlers.torch import has_hooks
from udfs.incremental import IncrementalNetwork
from udfs.occlusion._drill_down import Lattice
from udfs.occlusion._full_precision import full_float32
from udfs.occlusion._gaussian_process import Surface
from udfs.occlusion._heat_maps import HeatMaps, Values
from udfs.occlusion._original_network import OriginalNetwork, layers_in_parts
from udfs.occlusion._pace import Pace
from udfs.occlusion._place_rounds import DrillingDown
from udfs.occlusion._sampling import COMPARABLE, Sampling, coordinates, spread_places
from udfs.occlusion._score import output_layer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from numpy.typing import NDArray

    from optimizer.occlusion import UpdatePatches
    from udfs.handlers.torch import TorchModel
    from udfs.incremental import Views
    from udfs.occlusion._occlusion import Occlusion
    from udfs.occlusion._place_rounds import Rounds
    from udfs.occlusion._score import SettledScore

__all__ = ["Occluder", "Opened"]

# Axes of a batch of images.
_IMAGE = 4


@dataclass(frozen=True)
class Opened:
    """Image on the device with its views, for all occluders of one network. Made by :meth:`Occluder.opened`."""

    pixels: NDArray[np.float32]  # image as the network reads it
    whole: torch.Tensor  # image on the device, of shape (1, channels, ...)
    beside: Mapping[str, torch.Tensor]  # other inputs of the network, of shape (1, ...)
    views: Views  # tensors that the places read

    @property
    def nbytes(self) -> int:
        """Bytes of the image and its views."""
        return self.whole.nbytes + self.views.nbytes


class Occluder(HeatMaps):
    """Heat map computation for images of one size and one traced, prepared network of PyTorch.

    Raises
    ------
    optimizer.occlusion.PatchError
        The network has another input than the grid's images, or several and none is chosen.
    udfs.occlusion.ScoreError
        The network's output has no such score.
    """

    def __init__(self, model: TorchModel, occlusion: Occlusion, source: str | None = None) -> None:
        super().__init__(model, occlusion)
        self._device, self._traced, self._source = model.device, model, source
        tau = occlusion.tau if occlusion.mode == "approximate" else 1.0
        self._network = IncrementalNetwork(
            model, occlusion.grid, threshold=tau, source=source, bfloat16=occlusion.in_bfloat16
        )
        self.patches: UpdatePatches = self._network.patches
        # The same output under the name that the fused network has for it.
        self._output = output_layer(model.fused(), occlusion.score.head)

    @property
    def places(self) -> int:
        """Number of places to compute, over both stages of drill-down; all where the rounds decide."""
        if self._occlusion.mode != "approximate" or self._occlusion.step == 1:
            return self._occlusion.grid.count
        return self._lattice.places(self._occlusion.fraction)

    @property
    def in_full(self) -> bool:
        """True if the whole network runs for each place: in the naive mode, or where its parts cost about as much."""
        return self._occlusion.mode == "naive" or self._network.in_full

    def has_hook(self, layer: str) -> bool:
        """Return whether a layer is a module with hooks, which may change its tensors arbitrarily."""
        module = self._traced.fused().module_of(layer)
        return module is not None and has_hooks(module)

    def pace(self) -> Pace:
        """Return the pace of a heat map before its first place."""
        return Pace(self.patches, self._occlusion, self.places, in_full=self._network.in_full)

    def opened(self, pixels: NDArray[np.float32], others: Mapping[str, NDArray[np.generic]] | None = None) -> Opened:
        """Run the network once over an image, with its other inputs by name."""
        whole = torch.from_numpy(pixels)[None].to(self._device)
        if whole.dim() == _IMAGE:
            whole = whole.contiguous(memory_format=torch.channels_last)
        beside = {name: torch.from_numpy(array)[None].to(self._device) for name, array in (others or {}).items()}
        with self._precision():
            return Opened(pixels, whole, beside, self._network.materialise(whole, beside))

    def whole(self, image: Opened) -> NDArray[Any]:
        """Return the network's output for the image without a patch."""
        return _array(image.views.outputs[self._output])

    def values(self, image: Opened, score: SettledScore, targets: Sequence[int], places: NDArray[np.bool_]) -> Values:
        """Cover some places of an image with the patch; see :meth:`HeatMaps.values`."""
        lean = self._occlusion.in_bfloat16
        # Rounding the weights moves all places alike, and the image without a patch as much.
        moved = self.whole(image) - _array(image.views.computed[self._output]) if lean else None
        for index, results in self._results(image, places):
            outputs = _array(results[self._output])
            scores = score(outputs if moved is None else outputs + moved)[:, targets]
            yield index, scores.clip(0, 1) if lean and score.kind == "probability" else scores

    def under(self, image: Opened) -> NDArray[np.float32]:
        """Return the content of the patch at every place."""
        fill = _array(self._fill(image.whole))
        whole = fill.reshape(-1, *(1,) * (image.pixels.ndim - 1)) if fill.ndim == 1 else fill[0]
        return np.broadcast_to(whole, image.pixels.shape)

    def run_original(self, image: Opened, pixels: NDArray[np.float32]) -> NDArray[Any]:
        """Run the user's own module for one input."""
        return self._original.output(self._tensors(image, pixels))

    def run_original_precisely(self, image: Opened, pixels: NDArray[np.float32]) -> NDArray[Any] | None:
        """Run a copy of the module in float64."""
        return self._original.precise(self._tensors(image, pixels))

    def rounding_unit(self, image: Opened) -> float:
        """Return the rounding unit of the lowest precision of an operation in the user's own module."""
        return self._original.rounding_unit(self._tensors(image, image.pixels))

    def difference(self, image: Opened, pixels: NDArray[np.float32], place: tuple[int, ...]) -> str:
        """Name the first layer that differs from the user's own module."""
        remedy = 'set mode="naive", and report it with the network'
        fill = self._fill(image.whole)
        grid, source = self._occlusion.grid, self.patches.source
        try:
            partial = (
                layers_in_parts(self._traced, grid, source, image.whole, fill, image.beside, place) if place else {}
            )
            layer = self._original.first_difference(self._tensors(image, pixels), partial)
        except Exception as error:  # noqa: BLE001 - a failing search must not hide the difference
            return f"no layer can be named ({type(error).__name__}: {error}); {remedy}"
        if layer is None:
            return f"all layers agree before they are fused or joined into batches; {remedy}"
        return f"the first layer that differs is {layer}; {remedy}"

    def _tensors(self, image: Opened, pixels: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
        return {name: _array(tensor)[0] for name, tensor in image.beside.items()} | {self.patches.source: pixels}

    @cached_property
    def _original(self) -> OriginalNetwork:
        return OriginalNetwork(self._traced, self._occlusion.score.head)

    def _results(
        self, image: Opened, places: NDArray[np.bool_]
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        fill, size = self._fill(image.whole), self._occlusion.batch_size
        with self._precision():
            if self._occlusion.mode == "naive":
                yield from self._network.naive(image.whole, fill, batch_size=size, places=places, others=image.beside)
            else:
                yield from self._network.outputs(image.views, fill, batch_size=size, places=places)

    def _precision(self) -> AbstractContextManager[None]:
        """Return a context of full float32 precision, unless places are computed in bfloat16."""
        return nullcontext() if self._occlusion.in_bfloat16 else full_float32(self._device)

    def _fill(self, whole: torch.Tensor) -> torch.Tensor:
        if isinstance(self._occlusion.perturbation, np.ndarray):
            return torch.from_numpy(self._occlusion.perturbation)[None].to(self._device)
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

    def _rounds(self) -> Rounds:
        occlusion = self._occlusion
        if occlusion.mode == "approximate" and occlusion.target_ssim is not None:
            return Sampling(occlusion.grid, occlusion.target_ssim)
        if occlusion.mode == "approximate" and occlusion.step > 1:
            return DrillingDown(self._lattice, occlusion.fraction)
        return super()._rounds()

    def _likeness(
        self,
        image: Opened,
        score: SettledScore,
        targets: Sequence[int],
        values: NDArray[np.float32],
        order: Rounds,
    ) -> Sequence[float | None]:
        """Estimate the SSIM by the rounds where their values are exact, else by a sample of places."""
        occlusion = self._occlusion
        if occlusion.mode != "approximate":
            return super()._likeness(image, score, targets, values, order)
        is_exact = occlusion.tau == 1 and not occlusion.in_bfloat16
        if is_exact and (order.likeness or occlusion.step == 1):
            return order.likeness or (1.0,) * len(targets)
        if min(occlusion.grid.shape) < COMPARABLE:
            return (None,) * len(targets)
        if occlusion.in_bfloat16:
            beside = {name: _array(tensor)[0] for name, tensor in image.beside.items()}
            image = self._exactly.opened(image.pixels, beside)
        exact, sample = np.full_like(values, np.nan), spread_places(occlusion.grid.shape)
        for index, scores in self._exactly.values(image, score, targets, sample):
            exact[(slice(None), *index.T)] = scores.T
        if not np.isfinite(values).all() or not np.isfinite(exact[:, sample]).all():
            return (None,) * len(targets)
        axes = coordinates(occlusion.grid)
        rounded = [
            Surface.through(known, axes, mapped).likeness(mapped) for known, mapped in zip(exact, values, strict=True)
        ]
        # Rounds compute all places of the sample, which excludes those that they fill in, so both losses add up.
        return [
            max(-1.0, alike + filled - 1) for alike, filled in zip(rounded, order.likeness or repeat(1.0), strict=False)
        ]

    @cached_property
    def _exactly(self) -> Occluder:
        return Occluder(self._traced, replace(self._occlusion, mode="exact"), self._source)


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    """Convert a tensor to numpy, which has no bfloat16."""
    precise = tensor.float() if tensor.dtype == torch.bfloat16 else tensor
    array: NDArray[Any] = precise.numpy(force=True)
    return array
