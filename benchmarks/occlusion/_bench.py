"""One network, its photographs, and the ways to a heat map of it that are timed against each other."""

from __future__ import annotations

import copy
import statistics
import time
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from benchmarks.harness.photographs import jpegs
from benchmarks.harness.weights import card_of
from benchmarks.occlusion._norms import NETWORKS
from optimizer.occlusion import OcclusionGrid
from udfs.handlers import framework
from udfs.images import decode
from udfs.incremental import IncrementalNetwork
from udfs.occlusion import Occlusion
from udfs.occlusion.occluder import Occluder
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from benchmarks.occlusion._options import Options
    from udfs.handlers.torch import TorchModel

__all__ = ["Bench", "Naive", "Turns", "sampled", "take_turns"]

# Batches that the naive way tries: small tensors fit into a cache, and the largest need not be the fastest.
_BATCHES = (4, 8, 16, 32)

# Places of such a trial, at least.
_TRIAL = 8


@dataclass(frozen=True)
class Naive:
    """A setting of the naive way.

    Attributes
    ----------
    layout : str
        ``"NHWC"`` or ``"NCHW"``.
    batch_size : int
    """

    layout: str
    batch_size: int


class Bench:
    """A network ready to be timed.

    Parameters
    ----------
    name : str
        Of the roster, a folder of transformers, or of :data:`_occlusion_norms.NETWORKS`.
    options : Options
    """

    def __init__(self, name: str, options: Options) -> None:
        torch.set_num_threads(options.threads)
        self.name, self.options = name, options
        base = NETWORKS[name].base if name in NETWORKS else name
        card = card_of(base)
        self.preprocessing = card.preprocessing
        weights = options.weights_of(name)
        self.has_weights = weights is not None
        network = NETWORKS[name].build(roster.load(base)) if name in NETWORKS else roster.load(card, weights)
        self.network = network
        self.model: TorchModel = self._traced(network)

    def grid(self, patch: int | None = None, stride: int | None = None) -> OcclusionGrid:
        """Places of the patch; the options' sizes by default."""
        sizes = ((size,) * 2 for size in (patch or self.options.patch, stride or self.options.stride))
        return OcclusionGrid((self.preprocessing.crop,) * 2, *sizes)

    def pixels(self, photograph: int = 0) -> NDArray[np.float32]:
        """A photograph as the network reads it."""
        return decode(self._files[photograph], self.preprocessing)

    def image(self, photograph: int = 0) -> torch.Tensor:
        """The photograph as a batch of one, with the channels last in memory."""
        return torch.from_numpy(self.pixels(photograph))[None].contiguous(memory_format=torch.channels_last)

    def occluder(self, grid: OcclusionGrid, **settings: Any) -> Occluder:
        """Occluder whose patch has the colour that the network reads as 0."""
        return Occluder(self.model, Occlusion(grid, (0.0,) * 3, batch_size=self.options.batch_size, **settings))

    @cached_property
    def fastest(self) -> Naive:
        """The setting in which the naive way is fastest here, by trials of some batches; or the one asked for."""
        if self.options.naive_batch:
            return Naive("NHWC", self.options.naive_batch)
        grid = self.grid()
        trials = {}
        for size in _BATCHES:
            trials[Naive("NHWC", size)] = self.naive(grid, Naive("NHWC", size), places=max(size, _TRIAL))
        seconds = {naive: run() for naive, run in trials.items()}
        best = min(seconds, key=seconds.__getitem__)
        other = Naive("NCHW", best.batch_size)
        seconds[other] = self.naive(grid, other, places=max(other.batch_size, _TRIAL))()
        return min(seconds, key=seconds.__getitem__)

    def naive_in_words(self) -> str:
        """The naive way's setting, and whether others were tried."""
        setting = f"{self.name}: the naive way is {self.fastest.layout}, {self.fastest.batch_size} places at a time"
        return f"{setting}." if self.options.naive_batch else f"{setting}, the fastest here."

    def naive(self, grid: OcclusionGrid, naive: Naive | None = None, places: int | None = None) -> Callable[[], float]:
        """The naive way: seconds of a whole heat map, scaled from a random sample of the places.

        Parameters
        ----------
        grid : OcclusionGrid
        naive : Naive, optional
            The fastest by default.
        places : int, optional
            In the sample; the options' by default.
        """
        setting = naive or self.fastest
        image, model = self.image(), self.model
        if setting.layout == "NCHW":
            image, model = image.contiguous(), self._plain
        network = IncrementalNetwork(model, grid)
        mask = sampled(grid, places or self.options.sample)
        fill = torch.zeros(3)
        next(network.naive(image, fill, batch_size=setting.batch_size, places=mask))  # what a first run costs once

        def run() -> float:
            began = self.now()
            for _ in network.naive(image, fill, batch_size=setting.batch_size, places=mask):
                pass
            return (self.now() - began) * grid.count / int(mask.sum())

        return run

    def exact(
        self, grid: OcclusionGrid, *, tau: float = 1.0, batch_size: int | None = None, places: int | None = None
    ) -> tuple[Callable[[], float], IncrementalNetwork]:
        """The incremental way: seconds with the run that makes the views, and what computes them.

        Parameters
        ----------
        grid : OcclusionGrid
        tau : float
            Of projective field thresholding.
        batch_size : int, optional
        places : int, optional
            A random sample of so many; all by default.
        """
        network, image, fill = IncrementalNetwork(self.model, grid, threshold=tau), self.image(), torch.zeros(3)
        size = batch_size or self.options.batch_size
        mask = np.ones(grid.shape, np.bool_) if places is None else sampled(grid, places)
        next(network.outputs(network.materialise(image), fill, batch_size=size, places=sampled(grid, size)))

        def run() -> float:
            began = self.now()
            for _ in network.outputs(network.materialise(image), fill, batch_size=size, places=mask):
                pass
            return self.now() - began

        return run, network

    def explained(self, grid: OcclusionGrid, mode: str, **settings: Any) -> tuple[Callable[[], float], Occluder]:
        """A heat map as a user computes it: its seconds, and the function that computes it."""
        occluder, pixels = self.occluder(grid, mode=mode, **settings), self.pixels()
        occluder.opened(pixels)  # what a network's first image costs once

        def run() -> float:
            began = self.now()
            occluder.heat_map(occluder.opened(pixels))
            return self.now() - began

        return run, occluder

    def now(self) -> float:
        """Seconds of the wall's clock; of the process's CPU where one thread has all the work."""
        return time.process_time() if self.options.threads == 1 else time.perf_counter()

    @cached_property
    def _plain(self) -> TorchModel:
        """The same network with the channels first in memory."""
        plain = copy.deepcopy(self.network).to(memory_format=torch.contiguous_format)
        traced: Any = framework("torch").trace(plain, list(self.preprocessing.inputs))
        return traced

    def _traced(self, network: torch.nn.Module) -> TorchModel:
        traced: Any = framework("torch").trace(network, list(self.preprocessing.inputs))
        return traced.prepare(self.options.threads)

    @cached_property
    def _files(self) -> list[bytes]:
        # A sample, and as many held out.
        return jpegs(2 * self.options.images)


def sampled(grid: OcclusionGrid, count: int) -> NDArray[np.bool_]:
    """A random sample of places, the same each time."""
    mask = np.zeros(grid.count, np.bool_)
    mask[np.random.default_rng(1).permutation(grid.count)[:count]] = True
    return mask.reshape(grid.shape)


@dataclass
class Turns:
    """Seconds of the reference and of some ways that took turns with it.

    Attributes
    ----------
    reference : list of float
    ways : dict of list of float
        Seconds by way.
    speedups : dict of list of float
        The reference's seconds before and after a way, halved, over the way's.
    """

    reference: list[float] = field(default_factory=list)
    ways: dict[str, list[float]] = field(default_factory=dict)
    speedups: dict[str, list[float]] = field(default_factory=dict)

    def seconds(self, way: str) -> float:
        """Median seconds of a way."""
        return statistics.median(self.ways[way])

    def speedup(self, way: str) -> float:
        """Median speed-up over the turns."""
        return statistics.median(self.speedups[way])


def take_turns(reference: Callable[[], float], ways: Mapping[str, Callable[[], float]], repeats: int) -> Turns:
    """Time every way between two runs of the reference, so that a load that comes and goes disturbs both alike.

    Parameters
    ----------
    reference : callable
        Returns its seconds.
    ways : mapping of str to callable
    repeats : int
        Turns; every second one goes through the ways backwards.
    """
    turns = Turns(ways={way: [] for way in ways}, speedups={way: [] for way in ways})
    before = reference()
    turns.reference.append(before)
    for turn in range(repeats):
        for way in list(ways)[:: -1 if turn % 2 else 1]:
            seconds = ways[way]()
            after = reference()
            turns.ways[way].append(seconds)
            turns.speedups[way].append((before + after) / 2 / seconds)
            turns.reference.append(after)
            before = after
    return turns
