"""Feature extraction without Spark, as an engineer would write it by hand, in separate processes.

Of the project it takes the architectures (torchvision's, which does not import beside a CPU build of torch) and the
constants of the preprocessing. Decoding, inference, pooling and gathering are written anew.
"""

from __future__ import annotations

import io
import math
import queue
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image

from udfs.node import keep_freed_memory
from vista_spark import roster

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from numpy.typing import NDArray

    from udfs.images import Preprocessing

__all__ = ["Arrangement", "Fleet", "Task", "Truncated", "preprocess"]

_LAYOUTS = {"NCHW": torch.contiguous_format, "NHWC": torch.channels_last}


@dataclass(frozen=True, slots=True)
class Task:
    """Task that every arrangement performs.

    Parameters
    ----------
    model : str
    weights : str or None
    modules : tuple of str
        Paths of the modules whose pooled output is wanted, from the bottom to the top.
    preprocessing : Preprocessing
    seed : int
        Of random weights.
    """

    model: str
    weights: str | None
    modules: tuple[str, ...]
    preprocessing: Preprocessing
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Arrangement:
    """Arrangement of the work on the cores.

    Parameters
    ----------
    processes : int
    loops : int
        Python threads a process, each with a loop of its own over batches.
    threads : int
        Threads of torch within an operation; images are decoded by as many.
    layout : {"NCHW", "NHWC"}
    batch : int
    keep_memory : bool
        See :func:`udfs.node.keep_freed_memory`.
    """

    processes: int
    loops: int
    threads: int
    layout: str
    batch: int
    keep_memory: bool

    def __str__(self) -> str:
        allocator = "malloc keeps memory" if self.keep_memory else "malloc as it is"
        return (
            f"{self.processes} process x {self.loops} loop x {self.threads} torch thread, {self.layout}, "
            f"batch {self.batch}, {allocator}"
        )


def preprocess(
    files: Sequence[bytes], preprocessing: Preprocessing, decoders: ThreadPoolExecutor | None = None
) -> torch.Tensor:
    """Encoded images as one batch, of shape ``(n, 3, crop, crop)`` and channels last in memory."""
    crop = preprocessing.crop
    pixels = np.empty((len(files), crop, crop, 3), np.uint8)

    def decode(place: int) -> None:
        image = Image.open(io.BytesIO(files[place])).convert("RGB")
        if (short := preprocessing.resize) is None:
            pixels[place] = np.asarray(image.resize((crop, crop), Image.Resampling.BILINEAR))
            return
        width, height = image.size
        size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
        left, top = round((size[0] - crop) / 2), round((size[1] - crop) / 2)
        resized = image.resize(size, Image.Resampling.BILINEAR)
        pixels[place] = np.asarray(resized.crop((left, top, left + crop, top + crop)))

    if preprocessing.channels != "RGB":
        raise NotImplementedError("the bare loop knows RGB only")
    list((decoders.map if decoders else map)(decode, range(len(files))))
    mean, std = (torch.tensor(value).view(1, 3, 1, 1) for value in (preprocessing.mean, preprocessing.std))
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float().mul_(preprocessing.scale).sub_(mean).div_(std)


class _ReachedError(Exception):
    """The topmost wanted module has its output: nothing above it needs to run."""


class Truncated:
    """A network that ends at the topmost of some modules and gives their outputs pooled.

    Parameters
    ----------
    task : Task
    layout : {"NCHW", "NHWC"}
    """

    def __init__(self, task: Task, layout: str) -> None:
        self._layout = _LAYOUTS[layout]
        self._network: Any = roster.load(task.model, task.weights, seed=task.seed)
        self._network.to(memory_format=self._layout)
        self._modules = task.modules
        self._found = threading.local()
        for path in task.modules:
            self._network.get_submodule(path).register_forward_hook(self._tap(path))

    def _tap(self, path: str) -> Any:
        def hook(_module: object, _inputs: object, output: torch.Tensor) -> None:
            # Pooled at once: an in-place operation further up may overwrite the map.
            self._found.features[path] = _pool(output)
            if path == self._modules[-1]:
                raise _ReachedError

        return hook

    def __call__(self, batch: torch.Tensor) -> list[NDArray[np.float32]]:
        """Features of a batch, one array a module."""
        self._found.features = {}
        try:
            with torch.inference_mode():
                self._network(batch.contiguous(memory_format=self._layout))
        except _ReachedError:
            pass
        return [self._found.features[path].numpy() for path in self._modules]


def _pool(tensor: torch.Tensor) -> torch.Tensor:
    """Vista's grid of 2 x 2 maxima; a side that is no longer than that stays as it is."""
    if tensor.dim() == 4:
        tensor = F.adaptive_max_pool2d(tensor, [min(side, 2) for side in tensor.shape[2:]])
    return tensor.reshape(len(tensor), math.prod(tensor.shape[1:]))


class Fleet:
    """Processes that hold the images and do the work for any arrangement of their number.

    They are started as programs, not forked: torch's threads and a JVM's gateway do not survive a fork.

    Parameters
    ----------
    task : Task
    files : sequence of bytes
        All images; each process gets them at the start, as if it had read its own disk.
    processes : int
    keep_memory : bool
    """

    def __init__(self, task: Task, files: Sequence[bytes], processes: int, *, keep_memory: bool) -> None:
        self._links: list[Connection] = []
        self._started: list[subprocess.Popen[bytes]] = []
        for _ in range(processes):
            here, there = Pipe()
            self._started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "benchmarks.harness.bare_inference", str(there.fileno())],
                    pass_fds=[there.fileno()],
                )
            )
            there.close()
            self._links.append(here)
        for link in self._links:
            link.send((task, list(files), keep_memory))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        for link in self._links:
            link.close()
        for process in self._started:
            process.wait()

    def run(self, arrangement: Arrangement, count: int) -> tuple[float, list[NDArray[np.float32]]]:
        """Extract the features of the first ``count`` images and gather them in this process.

        Returns
        -------
        float
            Seconds.
        list of array of float32, shape (count, length)
            One a module.
        """
        # Several processes share a queue, so that a slow core does not delay the others; a single process takes all.
        size = count if arrangement.processes == 1 else max(16, arrangement.batch)
        chunks: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        for start in range(0, count, size):
            chunks.put((start, min(start + size, count)))
        found: dict[int, list[NDArray[np.float32]]] = {}

        def feed(link: Connection) -> None:
            while True:
                try:
                    start, stop = chunks.get_nowait()
                except queue.Empty:
                    return
                link.send((arrangement, start, stop))
                found[start] = link.recv()

        started = time.perf_counter()
        with ThreadPoolExecutor(len(self._links)) as feeders:
            list(feeders.map(feed, self._links))
        parts = [found[start] for start in sorted(found)]
        features = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
        return time.perf_counter() - started, features


def _serve(link: Connection) -> None:
    """Answer orders until the connection is closed."""
    task, files, keep = link.recv()
    if keep:
        keep_freed_memory()
    networks: dict[str, Truncated] = {}
    while True:
        try:
            arrangement, start, stop = link.recv()
        except EOFError:
            return
        if torch.get_num_threads() != arrangement.threads:
            torch.set_num_threads(arrangement.threads)
        if arrangement.layout not in networks:
            networks[arrangement.layout] = Truncated(task, arrangement.layout)
        batches = [files[at : min(at + arrangement.batch, stop)] for at in range(start, stop, arrangement.batch)]
        parts = _loop(networks[arrangement.layout], batches, task.preprocessing, arrangement)
        link.send([np.concatenate(columns) for columns in zip(*parts, strict=True)])


def _loop(
    network: Truncated, batches: list[list[bytes]], preprocessing: Preprocessing, arrangement: Arrangement
) -> list[list[NDArray[np.float32]]]:
    if arrangement.loops > 1:
        threads = arrangement.threads
        with ThreadPoolExecutor(arrangement.loops, initializer=torch.set_num_threads, initargs=(threads,)) as loops:
            return list(loops.map(lambda batch: network(preprocess(batch, preprocessing)), batches))
    if arrangement.threads > 1:
        with ThreadPoolExecutor(arrangement.threads) as decoders:
            return [network(preprocess(batch, preprocessing, decoders)) for batch in batches]
    return [network(preprocess(batch, preprocessing)) for batch in batches]


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
