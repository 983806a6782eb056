"""A network for images and the program that reads its features, as one module: from a decoded image to a prediction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from optimizer.compiling import choose_strategies, live_columns
from udfs.compiling.network._narrow import narrow
from udfs.compiling.torch import ProgramModule
from udfs.handlers import TensorSpec
from udfs.handlers.torch import FRAMEWORK, TorchModel
from udfs.inference import feature_length

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray
    from torch import fx

    from optimizer.compiling import Program
    from udfs.inference import Pooling

__all__ = ["JoinedModule", "OneRow", "joined"]

_MAP_RANK = 3


class JoinedModule(nn.Module):
    """From images and the numbers of their rows to the results of a program that reads both.

    Parameters
    ----------
    network : torch.nn.Module
        From images to the channels that the program reads of a layer.
    pool : torch.nn.Module
        From those to features of shape (rows, features).
    program : torch.nn.Module
        From the table to results, each of shape (rows, columns), and which rows it refuses.
    places : int64 array of shape (columns of the table,)
        Where each column of the table comes from: the numbers, then the features, then a zero.
    """

    places: torch.Tensor

    def __init__(self, network: nn.Module, pool: nn.Module, program: nn.Module, places: NDArray[np.int64]) -> None:
        super().__init__()
        self.network, self.pool, self.program = network, pool, program
        self.register_buffer("places", torch.from_numpy(places))

    def forward(self, image: torch.Tensor, numbers: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Run on images of shape (rows, 3, height, width) and float64 numbers of shape (rows, columns).

        Returns
        -------
        tuple of torch.Tensor
            The results, and last which rows have none: bool of shape (rows,).
        """
        features = self.pool(self.network(image)).to(torch.float64)
        table = torch.cat([numbers, features, torch.zeros_like(features[:, :1])], 1)
        *results, refused = self.program(torch.index_select(table, 1, self.places))
        finite = torch.isfinite(features).all(1)
        return (*results, torch.logical_or(refused, torch.logical_not(finite)))


class OneRow(nn.Module):
    """One result of a joined module for images beside the numbers of one row: what explains an image takes this.

    Parameters
    ----------
    whole : JoinedModule
    numbers : float64 array of shape (columns,)
    result : int
        Its place among the results.
    """

    numbers: torch.Tensor

    def __init__(self, whole: JoinedModule, numbers: NDArray[np.float64], result: int) -> None:
        super().__init__()
        self.whole, self.result = whole, result
        self.register_buffer("numbers", torch.from_numpy(numbers)[None])

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Run on images of shape (rows, 3, height, width)."""
        results = self.whole(image, self.numbers.expand(image.shape[0], -1))
        answer: torch.Tensor = results[self.result].to(torch.float32)
        return answer


class _Results(nn.Module):
    """The results of a program in a tuple, and last which rows it refuses."""

    def __init__(self, program: Program, strategies: Mapping[str, str]) -> None:
        super().__init__()
        self.methods = tuple(program.outputs)
        self.program = ProgramModule(program, strategies).eval()

    def forward(self, table: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results, bad = self.program(table)
        refused = torch.zeros_like(table[:, 0], dtype=torch.bool)
        for rows in bad.values():
            refused = torch.logical_or(refused, rows)
        return (*(results[method] for method in self.methods), refused)


class _Pool(nn.Module):
    """The maxima of a 2x2 grid, or the mean, of each channel of a map; the rest is flattened."""

    def __init__(self, pooling: str, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.pooling = pooling if len(shape) == _MAP_RANK else "none"
        rows, columns = (_spans(size) for size in shape[1:]) if self.pooling == "max2x2" else ((), ())
        self.cells = [(*row, *column) for row in rows for column in columns]

    def forward(self, maps: torch.Tensor) -> torch.Tensor:
        if self.pooling == "mean":
            return maps.mean((2, 3))
        if self.pooling == "max2x2":
            maps = torch.stack(
                [maps[:, :, top:end, left:right].amax((2, 3)) for top, end, left, right in self.cells], 2
            )
        return torch.flatten(maps, 1)


def joined(
    network: TorchModel,
    layer: str,
    pooling: Pooling,
    program: Program,
    structured: int,
    strategies: Mapping[str, str] | None = None,
) -> tuple[JoinedModule, int, int]:
    """Join a network, up to a layer, with the program that reads the layer's features behind some numbers.

    Channels that decide about no result are left out of the network: their features are zeros, which the program
    multiplies by zero or does not look at.

    Parameters
    ----------
    network : TorchModel
    layer : str
        Of the network's graph.
    pooling : {"max2x2", "mean", "none"}
    program : Program
        Reads a table of float64: `structured` numbers, then the features.
    structured : int
    strategies : mapping of str to str, optional
        For each node of trees, one of ``optimizer.compiling.STRATEGIES``; by default, what suits their depth.

    Returns
    -------
    JoinedModule
    int
        Channels of the layer that are live.
    int
        Channels that the layer has.
    """
    shape = network.graph[layer].output_shape
    channels = shape[0]
    cells = feature_length(shape, pooling) // channels
    live = live_columns(program)[structured:].reshape(channels, cells).any(axis=1)
    kept = np.flatnonzero(live) if live.any() else np.zeros(1, np.int64)
    place = np.full(channels, -1, np.int64)
    place[kept] = np.arange(len(kept))
    features = np.where(place[:, None] < 0, len(kept) * cells, place[:, None] * cells + np.arange(cells))
    places = np.concatenate([np.arange(structured), structured + features.reshape(-1)])
    ways = choose_strategies(program, native=False) if strategies is None else strategies
    results = FRAMEWORK.trace(_Results(program, ways).eval(), [TensorSpec((program.width,), "float64")])
    assert isinstance(results, TorchModel)  # noqa: S101 - of this framework
    slim = _narrowed(network.up_to(layer), kept, network)
    whole = JoinedModule(slim, _Pool(pooling, shape), results.branch(results.graph.inputs), places)
    return whole.eval(), int(live.sum()), channels


def _narrowed(whole: fx.GraphModule, kept: NDArray[np.int64], network: TorchModel) -> nn.Module:
    """Leave channels out, and hold the rest to the whole network's on noise: where they differ, it stays whole."""
    slim = narrow(whole, kept.tolist())
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(2, *network.graph[network.graph.inputs[0]].output_shape)).astype(np.float32)
    image, channels = torch.from_numpy(noise), torch.from_numpy(kept)
    with torch.inference_mode():
        expected = torch.index_select(whole(image), 1, channels)
        try:
            found = slim(image)
        except RuntimeError:  # a sum that repeats one side's channels
            found = None
        same = found is not None and torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
    return slim if same else _Chosen(whole, channels)


class _Chosen(nn.Module):
    """All channels, of which some are kept."""

    channels: torch.Tensor

    def __init__(self, network: nn.Module, channels: torch.Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("channels", channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.index_select(self.network(image), 1, self.channels)


def _spans(size: int) -> list[tuple[int, int]]:
    """Rows or columns of the cells, as :func:`udfs.inference.pool` has them."""
    cells = min(size, 2)
    return [(place * size // cells, -(-(place + 1) * size // cells)) for place in range(cells)]
