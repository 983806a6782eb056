"""Materialised views of one image, and ranges of them overlaid with update patches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Padding", "Updates", "Views"]

Padding: TypeAlias = tuple[tuple[int, int], ...]
"""Elements before and behind the tensor, for each axis."""


@dataclass(frozen=True, slots=True)
class Updates:
    """Update patches of some positions in one layer."""

    values: torch.Tensor  # contents of the patches, of shape (positions, channels, *lengths)
    starts: tuple[NDArray[np.int64], ...]  # start of each patch, by axis, of shape (positions,) each

    def cover(self, begin: Sequence[NDArray[np.int64]], extents: Sequence[int]) -> bool:
        """Return whether the patches are exactly these ranges, such as after an elementwise layer."""
        return tuple(extents) == tuple(self.values.shape[2:]) and all(map(np.array_equal, begin, self.starts))


@dataclass(frozen=True)
class Views:
    """Tensors of one image that many places read: the materialised views of incremental view maintenance."""

    tensors: Mapping[str, torch.Tensor]  # tensors by layer, of shape (1, channels, ...)
    outputs: Mapping[str, torch.Tensor]  # outputs of the network, in float32, of shape (1, ...)
    computed: Mapping[str, torch.Tensor]  # the same outputs in the precision of the places, of shape (1, ...)
    # Largest padding that any reader needs, by layer and value of the padding.
    paddings: Mapping[tuple[str, float], Padding]
    mixes: bool = False  # whether the network computes anything across the records of a batch
    _padded: dict[tuple[str, float], torch.Tensor] = field(default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors, also of those that were padded since."""
        kept = (self.tensors, self.outputs, self.computed, self._padded)
        return sum(tensor.nbytes for tensors in kept for tensor in tensors.values())

    @classmethod
    def from_tensor(cls, name: str, tensor: torch.Tensor) -> Views:
        """Wrap a single tensor."""
        return cls({name: tensor}, {}, {}, {})

    def ranges(
        self,
        name: str,
        updates: Updates | None,
        begin: Sequence[NDArray[np.int64]],
        extents: Sequence[int],
        outside: float = 0.0,
    ) -> torch.Tensor:
        """Read a range of a tensor for each position: the view's values, overlaid with the update patches'.

        Parameters
        ----------
        updates : Updates or None
            Update patches; ``None`` where no patch reaches the tensor.
        begin : sequence of array of int64, of shape (positions,) each
            Start of the range along each axis; may lie in the padding.
        extents : sequence of int
            Length of the range along each axis.
        outside : float
            Value of the padding.

        Returns
        -------
        tensor of shape (positions, channels, *extents)
            Channels last in memory, with which convolutions are fastest.
        """
        if updates is not None and updates.cover(begin, extents):
            return updates.values
        gathered = self._gathered(name, begin, extents, outside)
        if updates is not None:
            _overlay(gathered, updates, [start - first for start, first in zip(updates.starts, begin, strict=True)])
        return gathered.movedim(-1, 1)

    def _gathered(
        self,
        name: str,
        begin: Sequence[NDArray[np.int64]],
        extents: Sequence[int],
        outside: float,
    ) -> torch.Tensor:
        """Gather ranges of shape (positions, *extents, channels), by runs of elements along the last axis."""
        padding = self.paddings.get((name, outside), ((0, 0),) * len(extents))
        view = self._with_padding(name, padding, outside)
        *sizes, channels = view.shape
        rows = np.zeros((len(begin[0]), *(1,) * (len(sizes) - 1)), np.int64)
        for axis, (first, size, (pad, _)) in enumerate(zip(begin, sizes, padding, strict=True)):
            places = first[:, None] + pad
            if axis < len(sizes) - 1:
                places = places + np.arange(extents[axis])
                shape = (len(first), *(1,) * axis, -1, *(1,) * (len(sizes) - 2 - axis))
            else:
                shape = rows.shape[:1] + (1,) * (len(sizes) - 1)
            rows = rows * size + places.reshape(shape)
        run = extents[-1]
        runs = view.as_strided((view.numel() // channels - run + 1, run * channels), (channels, 1))
        index = torch.from_numpy(rows.ravel()).to(view.device)
        return runs.index_select(0, index).reshape(len(begin[0]), *extents, channels)

    def _with_padding(self, name: str, padding: Padding, outside: float) -> torch.Tensor:
        """Pad a tensor to shape (*sizes, channels), once; one without padding and with channels last is not copied."""
        key = (name, outside)
        if key not in self._padded:
            sides = [side for pair in reversed(padding) for side in pair]
            tensor = self.tensors[name]
            # Padding by nothing would copy the tensor.
            padded = functional.pad(tensor, sides, value=outside) if any(sides) else tensor
            self._padded[key] = padded[0].movedim(0, -1).contiguous()
        return self._padded[key]


def _overlay(ranges: torch.Tensor, updates: Updates, offsets: Sequence[NDArray[np.int64]]) -> None:
    """Write update patches into ranges of shape (positions, *extents, channels), each at its offset."""
    patches = updates.values.movedim(1, -1)
    extents, lengths = ranges.shape[1:-1], patches.shape[1:-1]
    if all((offset == offset[0]).all() for offset in offsets):
        targets, sources = [], []
        for offset, extent, length in zip(offsets, extents, lengths, strict=True):
            first = int(offset[0])
            start, stop = max(first, 0), max(min(first + length, extent), first, 0)
            targets.append(slice(start, stop))
            sources.append(slice(start - first, stop - first))
        ranges[(slice(None), *targets)] = patches[(slice(None), *sources)]
        return
    places = np.arange(len(patches)).reshape(-1, *(1,) * len(lengths))
    inside = np.ones((), np.bool_)
    for axis, (offset, extent, length) in enumerate(zip(offsets, extents, lengths, strict=True)):
        at = offset[:, None] + np.arange(length)
        at = at.reshape(len(patches), *(1,) * axis, length, *(1,) * (len(lengths) - 1 - axis))
        inside = inside & (at >= 0) & (at < extent)
        places = places * extent + at
    values = patches.reshape(-1, patches.shape[-1])
    if not inside.all():
        within = np.flatnonzero(np.broadcast_to(inside, places.shape))
        places, values = places.ravel()[within], values[torch.from_numpy(within).to(values.device)]
    rows = ranges.reshape(-1, ranges.shape[-1])
    rows[torch.from_numpy(places.ravel()).to(rows.device)] = values
