"""A traced network that recomputes no more than what a patch of its image changes."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from optimizer.occlusion import PatchError, update_patches
from udfs.incremental._buckets import buckets
from udfs.incremental._views import Updates, Views

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import Layer, Window
    from optimizer.occlusion import OcclusionGrid
    from udfs.handlers.torch import TorchModel
    from udfs.incremental._buckets import Bucket
    from udfs.incremental._views import Padding

__all__ = ["IncrementalNetwork"]

# Of each axis: more of them save little that is computed in vain.
_BUCKETS = 12

# As much of a batch as a bucket of rows and one of columns share, on average: smaller ones cost more than they save.
_FULL = 0.6

# A tensor of which more is changed is computed whole.
_WHOLE = 0.8

# Batches that are put together for the layers that are computed in full, and of how many bytes.
_ABOVE = 4
_ABOVE_BYTES = 16 * 2**20

_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MAX_POOLS = (nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d)
_AVERAGE_POOLS = (nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d)


class IncrementalNetwork:
    """Runs a network over an image of which a patch is other than it was, for many places of the patch.

    Parameters
    ----------
    model : TorchModel
        Traced and prepared; what runs is its fused form.
    grid : OcclusionGrid
        Places of the patch.
    threshold : float
        Tau of projective field thresholding; 1 (default) is exact.
    buckets : int, optional
        Into how many buckets the places along each axis are put; positions of one bucket have patches of one size. By
        default as many as leave batches half full, at most 12.
    source : str, optional
        The input that the patch is laid on, of a network of several.
    bfloat16 : bool
        Computes the places in bfloat16 (default false), as :meth:`udfs.handlers.torch.TorchModel.bfloat16` says.

    Raises
    ------
    optimizer.occlusion.PatchError
        The network has another input than such an image, or several and none is chosen.

    Examples
    --------
    >>> from udfs.handlers import TensorSpec, framework
    >>> from optimizer.occlusion import OcclusionGrid
    >>> _ = torch.manual_seed(0)
    >>> net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 8 * 8, 2)).eval()
    >>> model = framework("torch").trace(net, [TensorSpec((3, 8, 8))])
    >>> incremental = IncrementalNetwork(model, OcclusionGrid((8, 8), (2, 2), (3, 3)))
    >>> views = incremental.materialise(torch.ones(1, 3, 8, 8))
    >>> sum(len(places) for places, _ in incremental.outputs(views, torch.zeros(3), batch_size=4))
    9
    """

    def __init__(
        self,
        model: TorchModel,
        grid: OcclusionGrid,
        *,
        threshold: float = 1.0,
        buckets: int | None = None,
        source: str | None = None,
        bfloat16: bool = False,
    ) -> None:
        self._precise = model.fused()
        self._model = self._precise.bfloat16() if bfloat16 else self._precise
        self._count = buckets
        graph = self._model.graph
        known = {layer.name for layer in graph if _computable(self._model.module_of(layer.name), layer)}
        self.patches = update_patches(graph, grid, threshold=threshold, known=known, source=source)
        self._source = self.patches.source

    @cached_property
    def _paddings(self) -> dict[tuple[str, float], Padding]:
        """By tensor and by what its padding has: the most that any window on it reads."""
        found: dict[tuple[str, float], Padding] = {}
        for name in self.patches.spans:
            layer = self.patches.graph[name]
            if layer.window is None:
                continue
            (source,) = layer.inputs
            axes = range(layer.window.axes)
            sizes = [self.patches.extent(source, axis) for axis in axes]
            last = [self.patches.extent(name, axis) - 1 for axis in axes]
            key, own = (source, _outside(self._model.module_of(name))), _padding(layer.window, sizes, last)
            sides = zip(found.get(key, own), own, strict=True)
            found[key] = tuple((max(one[0], two[0]), max(one[1], two[1])) for one, two in sides)
        return found

    @cached_property
    def _viewed(self) -> list[str]:
        """Layers whose tensors are read beside the update patches; where a single layer only passes on, none is."""
        spans, graph = self.patches.spans, self.patches.graph
        found = dict.fromkeys(name for name in spans if name in graph.outputs)
        for layer in graph:
            passes_on = layer.name in spans and layer.window is None and len(set(layer.inputs)) == 1
            if not passes_on:
                found.update(dict.fromkeys(name for name in layer.inputs if name in spans or layer.name in spans))
        found.update(dict.fromkeys(self.patches.beside))
        return [name for name in found if name not in graph.inputs]

    def materialise(self, image: torch.Tensor, others: Mapping[str, torch.Tensor] | None = None) -> Views:
        """Run the network once and keep what the patches will read.

        Parameters
        ----------
        image : tensor of shape (1, channels, ...)
        others : mapping of str to tensor of shape (1, ...), optional
            The network's other inputs.

        Raises
        ------
        optimizer.occlusion.PatchError
            Places are to be computed in bfloat16, which the network cannot be.
        """
        outputs, whole = self.patches.graph.outputs, {self._source: image, **(others or {})}
        given = {name: self._cast(tensor) for name, tensor in whole.items()}
        try:
            found = self._model.tensors(given, [*dict.fromkeys((*self._viewed, *outputs))])
        except RuntimeError as error:
            if self._model is self._precise or isinstance(error, torch.OutOfMemoryError):
                raise
            raise PatchError(f"the network does not run in bfloat16 ({error}): take float32") from error
        views = given | {name: found[name] for name in self._viewed}
        computed = {name: found[name] for name in outputs}
        precise = computed if self._model is self._precise else self._precise.tensors(whole, outputs)
        return Views(views, precise, computed, self._paddings)

    def outputs(
        self, views: Views, fill: torch.Tensor, *, batch_size: int, places: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        """What the network gives for each place of the patch.

        Parameters
        ----------
        views : Views
            Of the image.
        fill : tensor of shape (channels,) or (1, channels, *image)
            What the patch has, as the network reads it: a colour, or what another image has at its place.
        batch_size : int
            Positions at a time; what is computed in full has more, up to four times as many.
        places : array of bool, of the heat map's shape, optional
            Which to compute; all by default.

        Yields
        ------
        array of int64, of shape (positions, axes)
            Indices of the heat map.
        dict of str to tensor of shape (positions, ...)
            The network's outputs.
        """
        grid, other = self.patches.grid, Views.of(self._source, self._cast(self._image(fill)))
        wanted = np.ones(grid.shape, np.bool_) if places is None else places
        axes = len(grid.image)
        cut = self._count or max(1, min(_BUCKETS, round((wanted.sum() / (_FULL * batch_size)) ** (1 / axes))))
        parts = [buckets(self.patches, axis, cut) for axis in range(axes)]
        waiting: list[tuple[NDArray[np.int64], dict[str, torch.Tensor]]] = []
        for choice in np.ndindex(*(len(part) for part in parts)):
            chosen = [part[at] for part, at in zip(parts, choice, strict=True)]
            local = np.argwhere(wanted[np.ix_(*(bucket.places for bucket in chosen))])
            incremental = self._incremental(chosen)
            # Batches of about one size, none much smaller than it could be.
            for rows in np.array_split(local, max(1, math.ceil(len(local) / batch_size))):
                if not len(rows):
                    continue
                index = np.stack([bucket.places[at] for bucket, at in zip(chosen, rows.T, strict=True)], axis=1)
                found = self._frontier(views, other, chosen, rows.T, incremental)
                if waiting and waiting[0][1].keys() != found.keys():  # more of it, or less, is computed in full
                    yield self._above(views, waiting)
                    waiting = []
                waiting.append((index, found))
                held = sum(tensor.nbytes for _, part in waiting for tensor in part.values())
                if sum(len(places) for places, _ in waiting) >= _ABOVE * batch_size or held >= _ABOVE_BYTES:
                    yield self._above(views, waiting)
                    waiting = []
        if waiting:
            yield self._above(views, waiting)

    def naive(
        self,
        image: torch.Tensor,
        fill: torch.Tensor,
        *,
        batch_size: int,
        places: NDArray[np.bool_] | None = None,
        others: Mapping[str, torch.Tensor] | None = None,
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        """The same from the whole network for each place of the patch (equations 6.5 and 6.6).

        Parameters
        ----------
        image : tensor of shape (1, channels, ...)
        fill, batch_size, places
            As for :meth:`outputs`.
        others
            As for :meth:`materialise`.

        Yields
        ------
        array of int64, of shape (positions, axes)
        dict of str to tensor of shape (positions, ...)
        """
        grid, other = self.patches.grid, self._image(fill)
        index = np.argwhere(np.ones(grid.shape, np.bool_) if places is None else places)
        firsts = [grid.starts(axis) for axis in range(len(grid.image))]
        for start in range(0, len(index), batch_size):
            part = index[start : start + batch_size]
            batch = image.expand(len(part), *image.shape[1:]).clone(memory_format=torch.preserve_format)
            for row, place in zip(batch, part, strict=True):
                begin = [int(first[at]) for first, at in zip(firsts, place, strict=True)]
                covered = (slice(at, at + extent) for at, extent in zip(begin, grid.patch, strict=True))
                at = (slice(None), *covered)
                row[at] = other[0][at]
            beside = {name: _repeated(tensor, len(part)) for name, tensor in (others or {}).items()}
            yield part, self._precise.tensors({self._source: batch, **beside}, self.patches.graph.outputs)

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """As the network that computes the places reads it."""
        return tensor if self._model is self._precise or not tensor.is_floating_point() else tensor.bfloat16()

    def _image(self, fill: torch.Tensor) -> torch.Tensor:
        """What lies under the patch wherever it is: a whole image."""
        extents = self.patches.grid.image
        return fill.reshape(1, -1, *(1,) * len(extents)).expand(1, -1, *extents) if fill.dim() == 1 else fill

    def _incremental(self, chosen: Sequence[Bucket]) -> dict[str, bool]:
        """Layers to compute in parts for these buckets; whether their whole tensor is wanted above.

        Where the patches cover nearly all of a tensor, all of it is computed: gathering costs more than it saves.
        """
        graph, found = self.patches.graph, dict[str, bool]()
        for name in self.patches.spans:
            covered = math.prod(
                bucket.lengths[name] / self.patches.extent(name, axis) for axis, bucket in enumerate(chosen)
            )
            read = [above for above in graph[name].inputs if above in self.patches.spans]
            if all(above in found for above in read) and (covered < _WHOLE or not read):
                found[name] = False
        for layer in graph:
            if layer.name not in found:
                found.update(dict.fromkeys((name for name in layer.inputs if name in found), True))
        found.update(dict.fromkeys((name for name in graph.outputs if name in found), True))
        return found

    def _frontier(
        self,
        views: Views,
        other: Views,
        chosen: Sequence[Bucket],
        rows: NDArray[np.int64],
        incremental: Mapping[str, bool],
    ) -> dict[str, torch.Tensor]:
        """The last incremental layers' whole tensors."""
        graph = self.patches.graph
        updates: dict[str, Updates] = {}
        found: dict[str, torch.Tensor] = {}
        last_reader = {above: name for name in incremental for above in graph[name].inputs}
        with torch.inference_mode():
            for name, is_last in incremental.items():
                starts = tuple(bucket.starts[name][row] for bucket, row in zip(chosen, rows, strict=True))
                lengths = tuple(bucket.lengths[name] for bucket in chosen)
                values = (
                    other.ranges(name, None, starts, lengths)
                    if name == self._source
                    else self._layer(graph[name], views, updates, starts, lengths)
                )
                updates[name] = Updates(values, starts)
                if is_last:
                    begin = [np.zeros_like(start) for start in starts]
                    found[name] = views.ranges(name, updates[name], begin, views.tensors[name].shape[2:])
                for above in (name, *graph[name].inputs):
                    if last_reader.get(above, name) == name:
                        updates.pop(above, None)
        return found

    def _above(
        self, views: Views, waiting: Sequence[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]
    ) -> tuple[NDArray[np.int64], dict[str, torch.Tensor]]:
        """What is computed in full: of several batches at once, for its layers are as large as they are many."""
        outputs = self.patches.graph.outputs
        whole = {name: torch.cat([part[name] for _, part in waiting]) for name in waiting[0][1]}
        kept = {name: whole[name] for name in outputs if name in whole}
        left = [name for name in outputs if name not in whole]
        index = np.concatenate([index for index, _ in waiting])
        beside = {name: _repeated(views.tensors[name], len(index)) for name in self.patches.beside}
        found = self._model.tensors(whole | beside, left) if left else {}
        return index, {name: (kept | found)[name] for name in outputs}

    def _layer(
        self,
        layer: Layer,
        views: Views,
        updates: Mapping[str, Updates],
        starts: tuple[NDArray[np.int64], ...],
        lengths: tuple[int, ...],
    ) -> torch.Tensor:
        """Algorithm 6: gather what the output patches read, lay the input patches over it, run the layer."""
        module = self._model.module_of(layer.name)
        if layer.window is None or module is None:
            extents = tuple(self.patches.extent(layer.name, axis) for axis in range(len(starts)))
            contexts = {
                name: views.ranges(name, updates.get(name), starts, lengths)
                if name in updates or tuple(views.tensors[name].shape[2:]) == extents
                else _repeated(views.tensors[name], len(starts[0]))
                for name in dict.fromkeys(layer.inputs)
            }
            return self._model.tensors(contexts, [layer.name])[layer.name]
        (source,) = layer.inputs
        begin, extents = _read_in(layer.window, starts, lengths)
        context = views.ranges(source, updates[source], begin, extents, _outside(module))
        return _unpadded(module, layer.window, context)


def _repeated(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """The same for every position."""
    return tensor.expand(count, *tensor.shape[1:])


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
    return isinstance(module, _MAX_POOLS)


def _outside(module: nn.Module | None) -> float:
    """What a layer takes its input's padding to have."""
    return -torch.inf if isinstance(module, _MAX_POOLS) else 0.0


def _unpadded(module: nn.Module, window: Window, context: torch.Tensor) -> torch.Tensor:
    """The layer on what holds its padding already."""
    axis = window.axes - 1
    if isinstance(module, _CONVOLUTIONS):
        convolve = (functional.conv1d, functional.conv2d, functional.conv3d)[axis]
        context = context.to(module.weight.dtype)  # the last layers of a network in bfloat16 are in float32
        return convolve(context, module.weight, module.bias, window.stride, 0, window.dilation, module.groups)
    if isinstance(module, _MAX_POOLS):
        most = (functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)[axis]
        found: torch.Tensor = most(context, window.kernel, window.stride, 0, window.dilation)
        return found
    mean = (functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)[axis]
    return mean(context, window.kernel, window.stride, 0)


def _padding(window: Window, sizes: Sequence[int], last: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Elements before and behind a tensor that windows read; a pooling of ``ceil_mode`` reads more behind."""
    steps = zip(sizes, last, window.kernel, window.stride, window.padding, window.dilation, strict=True)
    return tuple(
        (padding, max(0, at * stride - padding + (kernel - 1) * dilation + 1 - size))
        for size, at, kernel, stride, padding, dilation in steps
    )


def _read_in(
    window: Window, starts: Sequence[NDArray[np.int64]], lengths: Sequence[int]
) -> tuple[tuple[NDArray[np.int64], ...], tuple[int, ...]]:
    """Where the read-in contexts begin and how long they are (equations 6.15 and 6.16)."""
    begin = (
        start * stride - padding for start, stride, padding in zip(starts, window.stride, window.padding, strict=True)
    )
    steps = zip(lengths, window.kernel, window.stride, window.dilation, strict=True)
    extents = ((length - 1) * stride + (kernel - 1) * dilation + 1 for length, kernel, stride, dilation in steps)
    return tuple(begin), tuple(extents)
