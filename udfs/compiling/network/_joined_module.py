"""Module of an image network joined with the program that reads its features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from optimizer.compiling import choose_strategies, live_columns
from udfs.compiling.network._channel_removal import narrow
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
    """Network for images, pooling, and the program that reads features and structured numbers.

    Parameters
    ----------
    network : torch.nn.Module
        Function of images that returns the channels of a layer that the program reads.
    pool : torch.nn.Module
        Function of the channels that returns features of shape (rows, features).
    program : torch.nn.Module
        Function of the table that returns results, each of shape (rows, columns), and the refused rows.
    places : int64 array of shape (columns of the table,)
        Source of each column of the table: the numbers, then the features, then a zero.
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
            Results, and last the rows without one, bool of shape (rows,).
        """
        features = self.pool(self.network(image)).to(torch.float64)
        table = torch.cat([numbers, features, torch.zeros_like(features[:, :1])], 1)
        *results, refused = self.program(torch.index_select(table, 1, self.places))
        finite = torch.isfinite(features).all(1)
        return (*results, torch.logical_or(refused, torch.logical_not(finite)))


class OneRow(nn.Module):
    """Single result of a joined module for images, with the numbers of one row: input of an image explainer.

    Parameters
    ----------
    numbers : float64 array of shape (columns,)
        Structured numbers of the row.
    result : int
        Index of the result.
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
    """Results of a program in a tuple, and last the refused rows."""

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
    """Maxima of a 2x2 grid, or the mean, of each channel of a map. Other outputs are flattened."""

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

    Channels without effect on a result are left out of the network: their features are zeros, which the program
    multiplies by zero or does not read.

    Parameters
    ----------
    program : Program
        Program that reads a table of float64: `structured` numbers, then the features.
    strategies : mapping of str to str, optional
        Strategy of each node of trees. Default the tensor program that suits their depth.

    Returns
    -------
    JoinedModule
        The module.
    int
        Number of channels of the layer that are read.
    int
        Number of channels of the layer.
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
    assert isinstance(results, TorchModel)  # of this framework
    slim = _narrowed(network.up_to(layer), kept, network)
    whole = JoinedModule(slim, _Pool(pooling, shape), results.branch(results.graph.inputs), places)
    return whole.eval(), int(live.sum()), channels


def _narrowed(whole: fx.GraphModule, kept: NDArray[np.int64], network: TorchModel) -> nn.Module:
    """Leave channels out, or keep the whole network where the others differ on noise."""
    slim = narrow(whole, kept.tolist())
    draw = np.random.default_rng(0)
    noise = draw.normal(size=(2, *network.graph[network.graph.inputs[0]].output_shape)).astype(np.float32)
    image, channels = torch.from_numpy(noise), torch.from_numpy(kept)
    with torch.inference_mode():
        expected = torch.index_select(whole(image), 1, channels)
        try:
            actual = slim(image)
        except RuntimeError:  # a sum that repeats one side's channels
            actual = None
        same = actual is not None and torch.allclose(actual, expected, rtol=1e-4, atol=1e-5)
    return slim if same else _Chosen(whole, channels)


class _Chosen(nn.Module):
    """Selection of channels from the whole network."""

    channels: torch.Tensor

    def __init__(self, network: nn.Module, channels: torch.Tensor) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("channels", channels)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return torch.index_select(self.network(image), 1, self.channels)


def _spans(size: int) -> list[tuple[int, int]]:
    """Return the rows or columns of the cells of :func:`udfs.inference.pool`."""
    cells = min(size, 2)
    return [(place * size // cells, -(-(place + 1) * size // cells)) for place in range(cells)]
