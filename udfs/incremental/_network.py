"""Incremental network: recomputation of the parts of each tensor that a patch changes."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from optimizer.occlusion import PatchError, UpdatePatches, update_patches
from udfs.handlers import mixing_layer, with_neighbours
from udfs.handlers.torch import Mean, has_hooks
from udfs.incremental._buckets import buckets
from udfs.incremental._elementwise import constants_of, is_spread, spread, spread_name
from udfs.incremental._views import Updates, Views
from udfs.incremental._windows import computable, outside, padding, read_in, unpadded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from optimizer.graph import Layer
    from optimizer.occlusion import OcclusionGrid
    from udfs.handlers.torch import TorchModel
    from udfs.incremental._buckets import Bucket
    from udfs.incremental._views import Padding

__all__ = ["IncrementalNetwork", "is_in_full"]

# Per axis: more of them save hardly any wasted work.
_BUCKETS = 12

# Share of a batch that a bucket of rows and one of columns fill on average: smaller batches cost more than they save.
_FULL = 0.6

# A tensor of which a larger share changes is computed in full.
_WHOLE = 0.8

# Batches that are joined for the layers that are computed in full, and the most bytes of them.
_ABOVE = 4
_ABOVE_BYTES = 16 * 2**20

# Below this theoretical speed-up, gathering parts of tensors costs more than computing them saves.
_WORTH = 1.05

_ADAPTIVE = (nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveAvgPool3d)


def is_in_full(patches: UpdatePatches) -> bool:
    """True if every place runs through the whole network, because its parts cost about as much."""
    return patches.overall_speedup < _WORTH


class IncrementalNetwork:
    """Network that runs over an image with one patch changed, for many places of the patch.

    Each place has the outputs of a batch of that place alone. A network that mixes the records of a batch runs over one
    place at a time, and a network whose parts cost about as much as the whole runs as a whole.

    Parameters
    ----------
    model : TorchModel
        Traced and prepared; its fused form runs.
    threshold : float
        Tau of projective field thresholding; 1 (default) is exact.
    buckets : int, optional
        Number of buckets of the places along each axis; positions of one bucket have patches of one size. By default as
        many as leave batches half full, at most 12.
    source : str, optional
        Name of the input that gets the patch, where the network has several.
    bfloat16 : bool
        Compute the places in bfloat16 (default false); see :meth:`udfs.handlers.torch.TorchModel.bfloat16`.

    Raises
    ------
    optimizer.occlusion.PatchError
        The network's input is not such an image, or it has several and none is chosen.

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
        self._constants: dict[str, dict[str, Any]] = {}
        known: set[str] = set()
        for layer in graph:
            constants = {} if layer.window is not None else constants_of(self._model, layer)
            windowed = layer.window is not None and computable(self._model.module_of(layer.name), layer)
            if windowed or (layer.window is None and constants is not None):
                known.add(layer.name)
                self._constants[layer.name] = constants or {}
        means = {layer.name for layer in graph if self._is_mean(layer, len(grid.image))}
        self.patches = update_patches(graph, grid, threshold=threshold, known=known, means=means, source=source)
        self._source = self.patches.source
        self._mixes: bool | None = None  # unknown before the first image

    @property
    def in_full(self) -> bool:
        """True if every place runs through the whole network, because its parts cost about as much."""
        return is_in_full(self.patches)

    def _is_mean(self, layer: Layer, axes: int) -> bool:
        module = self._model.module_of(layer.name)
        if module is None or has_hooks(module) or len(layer.inputs) != 1:
            return False
        rank = len(self._model.graph[layer.inputs[0]].output_shape) + 1
        if rank != axes + 2:
            return False
        if isinstance(module, Mean):
            return module.over_places(rank)
        size = module.output_size if type(module) in _ADAPTIVE else None
        return type(module) is _ADAPTIVE[axes - 1] and size in (1, (1,) * axes, [1] * axes)

    @cached_property
    def _paddings(self) -> dict[tuple[str, float], Padding]:
        """Largest padding that any window reads, by tensor and value of the padding."""
        largest: dict[tuple[str, float], Padding] = {}
        for name in self.patches.spans:
            layer = self.patches.graph[name]
            if layer.window is None:
                continue
            (source,) = layer.inputs
            axes = range(layer.window.axes)
            sizes = [self.patches.extent(source, axis) for axis in axes]
            last = [self.patches.extent(name, axis) - 1 for axis in axes]
            key, needed = (source, outside(self._model.module_of(name))), padding(layer.window, sizes, last)
            pairs = zip(largest.get(key, needed), needed, strict=True)
            largest[key] = tuple((max(before, pad[0]), max(behind, pad[1])) for (before, behind), pad in pairs)
        return largest

    @cached_property
    def _viewed(self) -> list[str]:
        """Layers whose tensors are read in addition to the update patches; an elementwise layer reads none."""
        spans, graph = self.patches.spans, self.patches.graph
        viewed = dict.fromkeys(name for name in spans if name in graph.outputs)
        for layer in graph:
            elementwise = layer.name in spans and layer.window is None and len(set(layer.inputs)) == 1
            if not elementwise:
                viewed.update(dict.fromkeys(name for name in layer.inputs if name in spans or layer.name in spans))
        viewed.update(dict.fromkeys((*self.patches.beside, *self.patches.means)))
        return [name for name in viewed if name not in graph.inputs]

    def materialise(self, image: torch.Tensor, others: Mapping[str, torch.Tensor] | None = None) -> Views:
        """Run the network once over an image and its other inputs, and keep the tensors that the patches read.

        Raises
        ------
        optimizer.occlusion.PatchError
            Places are to be computed in bfloat16, and the network does not run in it.
        """
        outputs, whole = self.patches.graph.outputs, {self._source: image, **(others or {})}
        feeds = {name: self._cast(tensor) for name, tensor in whole.items()}
        try:
            tensors = self._model.tensors(feeds, [*dict.fromkeys((*self._viewed, *outputs))])
        except RuntimeError as error:
            if self._model is self._precise or isinstance(error, torch.OutOfMemoryError):
                raise
            raise PatchError(f"precision must be float32 for this network; bfloat16 fails ({error})") from error
        views = feeds | {name: tensors[name] for name in self._viewed}
        views |= self._spread(views)
        computed = {name: tensors[name] for name in outputs}
        precise = computed if self._model is self._precise else self._precise.tensors(whole, outputs)
        if self._mixes is None:
            self._mixes = self._mixes_records(whole)
        return Views(views, precise, computed, self._paddings, self._mixes)

    def _spread(self, views: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Expand operands of elementwise layers that are smaller than the image along an axis."""
        expanded, axes = {}, len(self.patches.grid.image)
        for name in self.patches.spans:
            layer = self.patches.graph[name]
            if layer.window is not None:
                continue
            extents = tuple(self.patches.extent(name, axis) for axis in range(axes))
            beside = {below: views[below] for below in layer.inputs if below not in self.patches.spans}
            smaller = {below: tensor for below, tensor in beside.items() if tuple(tensor.shape[2:]) != extents}
            for below, value in {**smaller, **self._constants[name]}.items():
                if is_spread(layer, value, axes):
                    expanded[spread_name(below, name)] = spread(value, extents)
        return expanded

    def _mixes_records(self, whole: Mapping[str, torch.Tensor]) -> bool:
        """Return whether a record's outputs depend on the other records of its batch."""
        inputs = {name: tensor.numpy(force=True) for name, tensor in whole.items()}
        images = with_neighbours(inputs[self._source])
        batch = {name: np.repeat(array, len(images), axis=0) for name, array in inputs.items()} | {self._source: images}
        graph = self.patches.graph
        return mixing_layer(graph, self._precise.run, batch, graph.outputs) is not None

    def outputs(
        self, views: Views, fill: torch.Tensor, *, batch_size: int, places: NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
        """Compute the network's outputs for each place of the patch.

        Parameters
        ----------
        fill : tensor of shape (channels,) or (1, channels, *image)
            Content of the patch as the network reads it: a colour, or an image whose pixels it has at its place.
        batch_size : int
            Positions per batch; layers that are computed in full use up to four times as many.
        places : array of bool, of the heat map's shape, optional
            Places to compute. Default: all.

        Yields
        ------
        array of int64, of shape (positions, axes)
            Indices of the heat map.
        dict of str to tensor of shape (positions, ...)
            The network's outputs.
        """
        if self.in_full:
            inputs = {name: views.tensors[name] for name in self.patches.graph.inputs if name in views.tensors}
            image, patch = inputs.pop(self._source), self._cast(fill)
            size = 1 if views.mixes else batch_size
            yield from self._in_full(self._model, image, patch, size, places, inputs)
            return
        grid, other = self.patches.grid, Views.from_tensor(self._source, self._cast(self._image(fill)))
        wanted = np.ones(grid.shape, np.bool_) if places is None else places
        axes = len(grid.image)
        cut = self._count or max(1, min(_BUCKETS, round((wanted.sum() / (_FULL * batch_size)) ** (1 / axes))))
        parts = [buckets(self.patches, axis, cut) for axis in range(axes)]
        waiting: list[tuple[NDArray[np.int64], dict[str, torch.Tensor]]] = []
        for choice in np.ndindex(*(len(part) for part in parts)):
            chosen = [part[at] for part, at in zip(parts, choice, strict=True)]
            local = np.argwhere(wanted[np.ix_(*(bucket.places for bucket in chosen))])
            incremental = self._incremental(chosen)
            # Batches of about equal size, none much smaller than it could be.
            for rows in np.array_split(local, max(1, math.ceil(len(local) / batch_size))):
                if not len(rows):
                    continue
                index = np.stack([bucket.places[at] for bucket, at in zip(chosen, rows.T, strict=True)], axis=1)
                frontier = self._frontier(views, other, chosen, rows.T, incremental)
                if waiting and waiting[0][1].keys() != frontier.keys():  # other layers are computed in full
                    yield self._above(views, waiting)
                    waiting = []
                waiting.append((index, frontier))
                waiting_bytes = sum(tensor.nbytes for _, part in waiting for tensor in part.values())
                if sum(len(places) for places, _ in waiting) >= _ABOVE * batch_size or waiting_bytes >= _ABOVE_BYTES:
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
        """Compute :meth:`outputs` with the whole network for each place of the patch (equations 6.5 and 6.6)."""
        if self._mixes is None:
            inputs = {self._source: image, **(others or {})}
            self._mixes = self._mixes_records(inputs)
        size = 1 if self._mixes else batch_size
        return self._in_full(self._precise, image, fill, size, places, others or {})

    def _in_full(
        self,
        model: TorchModel,
        image: torch.Tensor,
        fill: torch.Tensor,
        batch_size: int,
        places: NDArray[np.bool_] | None,
        others: Mapping[str, torch.Tensor],
    ) -> Iterator[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]:
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
            beside = {name: _repeated(tensor, len(part)) for name, tensor in others.items()}
            yield part, model.tensors({self._source: batch, **beside}, self.patches.graph.outputs)

    def _cast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Convert a tensor to the precision in which the places are computed."""
        return tensor if self._model is self._precise or not tensor.is_floating_point() else tensor.bfloat16()

    def _image(self, fill: torch.Tensor) -> torch.Tensor:
        """Expand the patch's values to a whole image, from which each place takes its part."""
        extents = self.patches.grid.image
        return fill.reshape(1, -1, *(1,) * len(extents)).expand(1, -1, *extents) if fill.dim() == 1 else fill

    def _incremental(self, chosen: Sequence[Bucket]) -> dict[str, bool]:
        """Choose the layers to compute in parts for these buckets, each with whether a layer above reads all of it.

        Where the patches cover nearly all of a tensor, it is computed in full: gathering costs more than it saves.
        """
        graph, partial = self.patches.graph, dict[str, bool]()
        for name in self.patches.spans:
            covered = math.prod(
                bucket.lengths[name] / self.patches.extent(name, axis) for axis, bucket in enumerate(chosen)
            )
            read = [below for below in graph[name].inputs if below in self.patches.spans]
            if all(below in partial for below in read) and (covered < _WHOLE or not read):
                partial[name] = False
        for layer in graph:
            if layer.name not in partial and layer.name not in self.patches.means:
                partial.update(dict.fromkeys((name for name in layer.inputs if name in partial), True))
        partial.update(dict.fromkeys((name for name in graph.outputs if name in partial), True))
        return partial

    def _frontier(
        self,
        views: Views,
        other: Views,
        chosen: Sequence[Bucket],
        rows: NDArray[np.int64],
        incremental: Mapping[str, bool],
    ) -> dict[str, torch.Tensor]:
        """Compute the whole tensors of the last incremental layers."""
        graph = self.patches.graph
        updates: dict[str, Updates] = {}
        frontier: dict[str, torch.Tensor] = {}
        last_reader = {below: name for name in incremental for below in graph[name].inputs}
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
                for mean in self._means_of.get(name, ()):
                    before = views.ranges(name, None, starts, lengths)
                    frontier[mean] = self._moved(views.tensors[mean], values, before, views.tensors[name])
                if is_last:
                    begin = [np.zeros_like(start) for start in starts]
                    frontier[name] = views.ranges(name, updates[name], begin, views.tensors[name].shape[2:])
                for below in (name, *graph[name].inputs):
                    if last_reader.get(below, name) == name:
                        updates.pop(below, None)
        return frontier

    @cached_property
    def _means_of(self) -> dict[str, list[str]]:
        means: dict[str, list[str]] = {}
        for name in self.patches.means:
            means.setdefault(self.patches.graph[name].inputs[0], []).append(name)
        return means

    @staticmethod
    def _moved(mean: torch.Tensor, after: torch.Tensor, before: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        """Move a mean over all places by what the patches change in its sum."""
        places = list(range(2, whole.dim()))
        difference = after.double().sum(places) - before.double().sum(places)
        change = (difference / math.prod(whole.shape[2:])).reshape(-1, *mean.shape[1:])
        return (mean.double() + change).to(mean.dtype)

    def _above(
        self, views: Views, waiting: Sequence[tuple[NDArray[np.int64], dict[str, torch.Tensor]]]
    ) -> tuple[NDArray[np.int64], dict[str, torch.Tensor]]:
        """Compute the remaining layers in full, for several batches at once."""
        outputs = self.patches.graph.outputs
        whole = {name: torch.cat([part[name] for _, part in waiting]) for name in waiting[0][1]}
        computed = {name: whole[name] for name in outputs if name in whole}
        remaining = [name for name in outputs if name not in whole]
        index = np.concatenate([index for index, _ in waiting])
        size = 1 if views.mixes else len(index)
        parts = []
        for start in range(0, len(index) if remaining else 0, size):
            fed = {name: tensor[start : start + size] for name, tensor in whole.items()}
            fed |= {name: _repeated(views.tensors[name], size) for name in self.patches.beside}
            parts.append(self._model.tensors(fed, remaining))
        computed |= {name: torch.cat([part[name] for part in parts]) for name in remaining}
        return index, {name: computed[name] for name in outputs}

    def _layer(
        self,
        layer: Layer,
        views: Views,
        updates: Mapping[str, Updates],
        starts: tuple[NDArray[np.int64], ...],
        lengths: tuple[int, ...],
    ) -> torch.Tensor:
        """Gather what the output patches read, overlay it with the input patches, run the layer (algorithm 6)."""
        module = self._model.module_of(layer.name)
        if layer.window is None or module is None:
            read: dict[str, Any] = {}
            for name in (*dict.fromkeys(layer.inputs), *self._constants[layer.name]):
                expanded = spread_name(name, layer.name)
                if name in self._constants[layer.name] and expanded not in views.tensors:
                    read[name] = self._constants[layer.name][name]
                elif expanded in views.tensors:
                    read[name] = views.ranges(expanded, None, starts, lengths)
                elif name in updates or not _is_even(views.tensors[name]):
                    read[name] = views.ranges(name, updates.get(name), starts, lengths)
                else:
                    read[name] = _repeated(views.tensors[name], len(starts[0]))
            return self._model.tensors(read, [layer.name])[layer.name]
        (source,) = layer.inputs
        begin, extents = read_in(layer.window, starts, lengths)
        context = views.ranges(source, updates[source], begin, extents, outside(module))
        return unpadded(module, layer.window, context)


def _repeated(tensor: torch.Tensor, count: int) -> torch.Tensor:
    """Repeat a tensor for every position."""
    return tensor.expand(count, *tensor.shape[1:])


def _is_even(tensor: torch.Tensor) -> bool:
    """Return whether a tensor has one value for all places of an image."""
    return math.prod(tensor.shape[2:]) == 1
