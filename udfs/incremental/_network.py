"""A traced network that recomputes no more than what a patch of its image changes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from optimizer.patches import update_patches
from udfs.incremental._bands import bands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import Layer, Window
    from optimizer.patches import OcclusionGrid
    from udfs.handlers.torch import TorchModel
    from udfs.incremental._bands import Band

__all__ = ["IncrementalNetwork", "Views"]

# Of each axis: more of them save little that is computed in vain at the borders.
_BANDS = 4

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)


@dataclass(frozen=True, slots=True)
class Views:
    """Every tensor of one image that is read again: the materialised views of incremental view maintenance.

    Attributes
    ----------
    tensors : mapping of str to tensor of shape (1, ...)
        By layer.
    outputs : mapping of str to tensor of shape (1, ...)
        Of the network.
    """

    tensors: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class _Updates:
    """Update patches of some positions in one layer.

    Attributes
    ----------
    values : tensor of shape (positions, channels, *lengths)
    starts : tuple of tensor of int64, of shape (positions,) each
    """

    values: torch.Tensor
    starts: tuple[torch.Tensor, ...]

    def cover(self, begin: Sequence[torch.Tensor], extents: Sequence[int]) -> bool:
        """Whether they are these ranges exactly, as after a layer that works element by element."""
        return tuple(extents) == tuple(self.values.shape[2:]) and all(map(torch.equal, begin, self.starts))

    def slices(self, begin: Sequence[torch.Tensor], extents: Sequence[int]) -> tuple[slice, ...] | None:
        """Where they lie in these ranges, if it is the same place in all of them and they lie in them whole."""
        found = []
        for start, first, extent, length in zip(self.starts, begin, extents, self.values.shape[2:], strict=True):
            offsets = start - first
            offset = int(offsets[0])
            if not 0 <= offset <= extent - length or bool((offsets != offset).any()):
                return None
            found.append(slice(offset, offset + length))
        return tuple(found)


class IncrementalNetwork:
    """Runs a network over an image of which a patch is other than it was, for many places of the patch.

    Parameters
    ----------
    model : TorchModel
        Traced and prepared.
    grid : OcclusionGrid
        Places of the patch.
    threshold : float
        Tau of projective field thresholding; 1 (default) is exact.
    bands : int, optional
        Into how many bands the heat map is cut along each axis; positions of one band have patches of one size. By
        default as many as leave batches full, at most 4.

    Raises
    ------
    optimizer.patches.PatchError
        The network has another input than such an image.

    Examples
    --------
    >>> from udfs.handlers import TensorSpec, handler
    >>> from optimizer.patches import OcclusionGrid
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 2)).eval()
    >>> model = handler("torch").trace(net, [TensorSpec((3, 8, 8))])
    >>> incremental = IncrementalNetwork(model, OcclusionGrid((8, 8), (2, 2), (3, 3)))
    >>> views = incremental.materialise(torch.ones(1, 3, 8, 8))
    >>> sum(len(places) for places, _ in incremental.outputs(views, torch.zeros(3), batch_size=4))
    9
    """

    def __init__(
        self, model: TorchModel, grid: OcclusionGrid, *, threshold: float = 1.0, bands: int | None = None
    ) -> None:
        self._model = model
        self._bands = bands
        known = {layer.name for layer in model.graph if _computable(model.module_of(layer.name), layer)}
        self.patches = update_patches(model.graph, grid, threshold=threshold, known=known)
        self._source = model.graph.inputs[0]

    def materialise(self, image: torch.Tensor) -> Views:
        """Run the network once and keep what the patches will read.

        Parameters
        ----------
        image : tensor of shape (1, channels, ...)
        """
        graph, incremental = self.patches.graph, [name for name in self.patches.spans if name != self._source]
        found = self._model.tensors({self._source: image}, [*dict.fromkeys((*incremental, *graph.outputs))])
        views = {self._source: image} | {name: found[name] for name in incremental}
        return Views(views, {name: found[name] for name in graph.outputs})

    def outputs(
        self, views: Views, fill: torch.Tensor, *, batch_size: int, places: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        """What the network gives for each place of the patch.

        Parameters
        ----------
        views : Views
            Of the image.
        fill : tensor of shape (channels,) or (channels, *patch)
            What the patch has, as the network reads it.
        batch_size : int
            Positions at a time.
        places : array of bool, of the heat map's shape, optional
            Which to compute; all by default.

        Yields
        ------
        array of int64, of shape (positions, axes)
            Indices of the heat map.
        dict of str to tensor of shape (positions, ...)
            The network's outputs.
        """
        grid, patch = self.patches.grid, self._patch(fill)
        axes = len(grid.image)
        count = grid.count if places is None else int(places.sum())
        cut = self._bands or max(1, min(_BANDS, round((count / batch_size) ** (1 / axes))))
        parts = [bands(self.patches, axis, cut) for axis in range(axes)]
        for choice in np.ndindex(*(len(part) for part in parts)):
            chosen = [part[at] for part, at in zip(parts, choice, strict=True)]
            local = np.stack(
                [one.ravel() for one in np.meshgrid(*(np.arange(len(b.places)) for b in chosen), indexing="ij")]
            )
            index = np.stack([band.places[row] for band, row in zip(chosen, local, strict=True)])
            if places is not None:
                wanted = places[tuple(index)]
                local, index = local[:, wanted], index[:, wanted]
            for start in range(0, local.shape[1], batch_size):
                rows = local[:, start : start + batch_size]
                yield index[:, start : start + batch_size].T, self._batch(views, patch, chosen, rows)

    def naive(
        self, image: torch.Tensor, fill: torch.Tensor, *, batch_size: int, places: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        """The same from the whole network for each place of the patch (equations 6.5 and 6.6).

        Parameters
        ----------
        image : tensor of shape (1, channels, ...)
        fill, batch_size, places
            As for :meth:`outputs`.

        Yields
        ------
        array of int64, of shape (positions, axes)
        dict of str to tensor of shape (positions, ...)
        """
        grid, patch = self.patches.grid, self._patch(fill)
        index = np.argwhere(np.ones(grid.shape, np.bool_) if places is None else places)
        firsts = [grid.starts(axis) for axis in range(len(grid.image))]
        for start in range(0, len(index), batch_size):
            part = index[start : start + batch_size]
            batch = image.expand(len(part), *image.shape[1:]).clone(memory_format=torch.preserve_format)
            for row, place in zip(batch, part, strict=True):
                begin = [int(first[at]) for first, at in zip(firsts, place, strict=True)]
                covered = (slice(at, at + extent) for at, extent in zip(begin, grid.patch, strict=True))
                row[(slice(None), *covered)] = patch
            yield part, self._model.tensors({self._source: batch}, self.patches.graph.outputs)

    def _patch(self, fill: torch.Tensor) -> torch.Tensor:
        extents = self.patches.grid.patch
        return fill.reshape(-1, *(1,) * len(extents)).expand(-1, *extents) if fill.dim() == 1 else fill

    def _batch(
        self, views: Views, patch: torch.Tensor, chosen: list[Band], rows: NDArray[np.int64]
    ) -> dict[str, torch.Tensor]:
        graph, whole = self.patches.graph, self.patches.whole
        count = rows.shape[1]
        wanted = set(self.patches.frontier)
        updates: dict[str, _Updates] = {}
        full: dict[str, torch.Tensor] = {}
        with torch.inference_mode():
            for name in self.patches.spans:
                starts = tuple(
                    torch.from_numpy(band.starts[name][row]).to(patch.device)
                    for band, row in zip(chosen, rows, strict=True)
                )
                lengths = tuple(band.lengths[name] for band in chosen)
                if name == self._source:
                    values = patch.expand(count, *patch.shape)
                else:
                    values = self._layer(graph[name], views, updates, starts, lengths)
                updates[name] = _Updates(values, starts)
                if name in wanted:
                    shape = views.tensors[name].shape[2:]
                    begin = [torch.zeros_like(start) for start in starts]
                    full[name] = _context(views.tensors[name], updates[name], begin, shape)
            found = self._model.tensors(full, [name for name in graph.outputs if name in whole]) if whole else {}
        return {name: full.get(name, found.get(name)) for name in graph.outputs}  # type: ignore[misc]

    def _layer(
        self,
        layer: Layer,
        views: Views,
        updates: Mapping[str, _Updates],
        starts: tuple[torch.Tensor, ...],
        lengths: tuple[int, ...],
    ) -> torch.Tensor:
        """Algorithm 6: gather what the output patches read, lay the input patches over it, run the layer."""
        module = self._model.module_of(layer.name)
        if layer.window is None or module is None:
            contexts = {
                name: _context(views.tensors[name], updates.get(name), starts, lengths)
                for name in dict.fromkeys(layer.inputs)
            }
            return self._model.tensors(contexts, [layer.name])[layer.name]
        (source,) = layer.inputs
        outside = -torch.inf if isinstance(module, _MAX_POOLS) else 0.0
        context = _context(views.tensors[source], updates[source], *_read_in(layer.window, starts, lengths), outside)
        return _unpadded(module, layer.window, context)


def _computable(module: nn.Module | None, layer: Layer) -> bool:
    """Whether a layer with a window can be run without its padding; those without one can anyway."""
    if layer.window is None:
        return True
    if isinstance(module, _CONVOLUTIONS):
        # A padding of "same" may be longer on one side, one that is circular looks at the other end.
        return module.padding_mode == "zeros" and not isinstance(module.padding, str)
    if isinstance(module, _AVERAGE_POOLS):
        # Where the border's divisor is another, an average is no function of its window alone.
        plain = module.count_include_pad or not any(layer.window.padding)
        return plain and not module.ceil_mode and getattr(module, "divisor_override", None) is None
    return isinstance(module, _MAX_POOLS) and not module.ceil_mode


def _unpadded(module: nn.Module, window: Window, context: torch.Tensor) -> torch.Tensor:
    """The layer on what holds its padding already."""
    axis = window.axes - 1
    if isinstance(module, _CONVOLUTIONS):
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[axis]
        return convolve(context, module.weight, module.bias, window.stride, 0, window.dilation, module.groups)
    if isinstance(module, _MAX_POOLS):
        most = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[axis]
        found: torch.Tensor = most(context, window.kernel, window.stride, 0, window.dilation)
        return found
    mean = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[axis]
    return mean(context, window.kernel, window.stride, 0)


def _read_in(
    window: Window, starts: Sequence[torch.Tensor], lengths: Sequence[int]
) -> tuple[tuple[torch.Tensor, ...], tuple[int, ...]]:
    """Where the read-in contexts begin and how long they are (equations 6.15 and 6.16)."""
    begin = (
        start * stride - padding for start, stride, padding in zip(starts, window.stride, window.padding, strict=True)
    )
    steps = zip(lengths, window.kernel, window.stride, window.dilation, strict=True)
    extents = ((length - 1) * stride + (kernel - 1) * dilation + 1 for length, kernel, stride, dilation in steps)
    return tuple(begin), tuple(extents)


def _context(
    view: torch.Tensor,
    updates: _Updates | None,
    begin: Sequence[torch.Tensor],
    extents: Sequence[int],
    outside: float = 0.0,
) -> torch.Tensor:
    """A range of a tensor for each position: the view's values, those of the update patches over them.

    Parameters
    ----------
    view : tensor of shape (1, channels, ...)
    updates : _Updates or None
        None where no patch reaches the tensor.
    begin : sequence of tensor of int64, of shape (positions,) each
        Where the range begins, an axis each; may lie in the padding.
    extents : sequence of int
        Of the range.
    outside : float
        What the padding has.

    Returns
    -------
    tensor of shape (positions, channels, *extents)
    """
    if updates is not None and updates.cover(begin, extents):
        return updates.values
    places = [
        start[:, None] + torch.arange(extent, device=start.device) for start, extent in zip(begin, extents, strict=True)
    ]
    inside, index = _within(places, view.shape[2:])
    found = view[0].movedim(0, -1)[index]
    if not bool(inside.all()):
        found = torch.where(inside.unsqueeze(-1), found, found.new_full((), outside))
    if updates is not None:
        patches = updates.values.movedim(1, -1)
        slices = updates.slices(begin, extents)
        if slices is not None:
            found[(slice(None), *slices)] = patches
        else:
            own = [place - start[:, None] for place, start in zip(places, updates.starts, strict=True)]
            covered, index = _within(own, patches.shape[1:-1])
            row = torch.arange(len(covered), device=view.device).reshape(-1, *(1,) * len(places))
            found = torch.where(covered.unsqueeze(-1), patches[(row, *index)], found)
    # Channels last in memory, which is what convolutions are fastest with.
    return found.movedim(-1, 1)


def _within(places: Sequence[torch.Tensor], sizes: Sequence[int]) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    """Which places lie in a tensor, and indices of them, those outside moved to its border.

    Parameters
    ----------
    places : sequence of tensor of shape (positions, extent), an axis each
    sizes : sequence of int

    Returns
    -------
    tensor of bool, of shape (positions, *extents)
    tuple of tensor
        That broadcast to that shape.
    """
    axes = len(places)
    spread = [
        place.reshape(len(place), *(1,) * axis, -1, *(1,) * (axes - 1 - axis)) for axis, place in enumerate(places)
    ]
    held = [(place >= 0) & (place < size) for place, size in zip(spread, sizes, strict=True)]
    index = tuple(place.clamp(0, size - 1) for place, size in zip(spread, sizes, strict=True))
    return reduce(torch.logical_and, held), index
