"""Memory of a way to make a heat map (appendix B.6), each measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from benchmarks.occlusion._bench import Bench, sampled
from udfs.incremental import IncrementalNetwork

if TYPE_CHECKING:
    from benchmarks.occlusion._options import Options

__all__ = ["peak_bytes", "peak_of"]


def peak_of(name: str, way: str, options: Options) -> int:
    """Bytes that a network takes at most beyond its weights, by a process that is started for it.

    Parameters
    ----------
    name : str
    way : {"naive", "exact"}
    options : Options
    """
    command = [sys.executable, "-m", "benchmarks.occlusion", "--models", name, "--memory-of", way]
    for option in ("patch", "stride", "batch_size", "threads"):
        command += [f"--{option.replace('_', '-')}", str(getattr(options, option))]
    weights = options.weights_of(name)
    command += ["--weights", "random" if weights is None else f"{name}={weights}"]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


def peak_bytes(options: Options) -> int:
    """Bytes that this process takes at most for some batches of one way, beyond the network (Linux)."""
    bench = Bench(options.models[0], options)
    grid, image, fill, size = bench.grid(), bench.image(), torch.zeros(3), options.batch_size
    network, places = IncrementalNetwork(bench.model, grid), sampled(grid, 4 * size)
    network.materialise(image)
    Path("/proc/self/clear_refs").write_text("5")  # Linux then counts the peak anew
    before = _status("VmRSS")
    if options.memory_of == "naive":
        results = network.naive(image, fill, batch_size=size, places=places)
    else:
        results = network.outputs(network.materialise(image), fill, batch_size=size, places=places)
    for _ in results:
        pass
    return _status("VmHWM") - before


def _status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))
