"""Memory of a process that scores by one side and does nothing else: thesis Table 5.9, on Linux."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from benchmarks.compiling._sides import SIDES, method_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

__all__ = ["Memory", "memory_of"]

_BATCH = 1_000
"""Records at a time in Table 5.9."""


class Memory(NamedTuple):
    """Resident MiB of a process.

    Parameters
    ----------
    opened, peak : float
        With libraries, rows and model, before the first answer; and at most.
    """

    opened: float
    peak: float


def memory_of(model: Any, rows: NDArray[np.float32], threads: int) -> dict[str, Memory]:
    """Save a fitted model for each side, and score with each in a process that is started for it."""
    from benchmarks.compiling._onnx import to_onnx  # the process that is measured has no converter
    from benchmarks.compiling._runs import torch_alone
    from vista_spark import compile_pipeline

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "rows.npy", rows)
        (folder / "model.pickle").write_bytes(pickle.dumps(model))
        (folder / "model.onnx").write_bytes(to_onnx(model))
        compile_pipeline(model).save(folder / "model.safetensors")
        asked: tuple[tuple[str, dict[str, Any]], ...] = (
            ("pickle", {}),
            ("onnx", {}),
            ("safetensors", torch_alone(model)),
            ("safetensors", {}),
        )
        return {
            side: _started(folder, kind, {"method": method_of(model), "threads": threads, "options": options})
            for side, (kind, options) in zip(SIDES, asked, strict=True)
        }


def _started(folder: Path, kind: str, given: Mapping[str, Any]) -> Memory:
    command = [sys.executable, "-m", "benchmarks.compiling._memory", str(folder), kind, json.dumps(given)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Memory(*json.loads(done.stdout.splitlines()[-1]))


def _pickle(folder: Path, method: str, threads: int, options: dict[str, Any]) -> Callable[[Any], Any]:
    del threads, options  # the model knows its threads
    model = pickle.loads((folder / "model.pickle").read_bytes())  # written by the process that asks
    found: Callable[[Any], Any] = getattr(model, method)
    return found


def _onnx(folder: Path, method: str, threads: int, options: dict[str, Any]) -> Callable[[Any], Any]:
    del method, options
    from benchmarks.compiling._onnx import open_onnx

    session = open_onnx(str(folder / "model.onnx"), threads)
    output = session.get_outputs()[-1].name
    return lambda rows: session.run([output], {"x": rows})


def _safetensors(folder: Path, method: str, threads: int, options: dict[str, Any]) -> Callable[[Any], Any]:
    from vista_spark import CompiledPipeline

    model = CompiledPipeline.load(folder / "model.safetensors", threads=threads, **options)
    found: Callable[[Any], Any] = getattr(model, method)
    return found


_OPENERS = {"pickle": _pickle, "onnx": _onnx, "safetensors": _safetensors}


def _score(folder: Path, kind: str, given: Mapping[str, Any]) -> Memory:
    rows = np.load(folder / "rows.npy")
    call = _OPENERS[kind](folder, **given)
    opened = _resident("VmRSS")
    for start in range(0, len(rows), _BATCH):
        call(rows[start : start + _BATCH])
    return Memory(opened, _resident("VmHWM"))


def _resident(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    print(json.dumps(_score(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))))
