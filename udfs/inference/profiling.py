"""Footprint and speed of a model, measured in a process of its own that does what a Spark worker does.

That process is ``python -m udfs.inference.profiling``: it reads a request from its standard input and answers in JSON.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from optimizer.transfer import ModelProfile, plan_layers
from udfs.node import NewProcessError, ask_new_process, process_memory

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from udfs.handlers import TracedModel
    from udfs.inference._inference import Inference

__all__ = ["ProfilingError", "ProfilingRequest", "measure"]

# Runs of the network until no more memory is added; fragmentation makes the second larger than the first.
_RUNS = 4
_SETTLED = 1.01

_TIMED_RECORDS = 8
_TIMED_RUNS = 3


class ProfilingError(CerebroError, RuntimeError):
    """The measuring process failed; the message has its last line."""


@dataclass(frozen=True, slots=True)
class ProfilingRequest:
    """A model to measure, and the rows to measure it with."""

    model: str  # name, for the profile
    inference: Inference  # inference that a worker would run
    batch: pa.RecordBatch  # records of the kind that it reads, at least inference.batch_size of them
    depths: tuple[str, ...]  # layers at which seconds are taken, from the bottom to the top
    threads: int = 1  # number of threads of one run of the network


def measure(request: ProfilingRequest) -> ModelProfile:
    """Measure a model in a new process.

    Resident memory is what the kernel counts: what opening the model and running full batches adds to a process that
    has imported what every Spark worker imports. Pages of files (libraries, mapped weights) are told from the
    process's own. Freed memory is kept, as in a worker, so that the end shows the peak.

    Raises
    ------
    ProfilingError
        The process ended without an answer: out of memory, for example.
    """
    try:
        answer = ask_new_process("udfs.inference.profiling", request, request.threads)
    except NewProcessError as error:
        raise ProfilingError(f"the process that measures {request.model} {error}") from error
    return ModelProfile.from_dict(answer)


def _answer(request: ProfilingRequest, bare: tuple[int, int]) -> ModelProfile:
    from udfs.arrow import RowMap, RowPolicy
    from udfs.handlers import framework
    from udfs.inference._model import open_model
    from udfs.node import keep_freed_memory  # only what is measured is imported, and in its order

    keep_freed_memory()
    inference = request.inference
    rows = RowMap(inference, (), RowPolicy("raise"))
    full = request.batch.slice(0, inference.batch_size)
    model = open_model(inference.source, inference.device, request.threads)
    before = 0
    for _ in range(_RUNS):
        for _out in rows([full]):
            pass
        resident = _resident()[0]
        if resident <= _SETTLED * before:
            break
        before = resident
    resident, mapped = _resident()
    resident = max(resident, process_memory()["VmHWM"] - mapped)
    shared = max(0, mapped - bare[1])
    few = full.slice(0, min(_TIMED_RECORDS, full.num_rows))
    input_seconds, seconds = _seconds(request, model, few)
    return ModelProfile(
        model=request.model,
        device=inference.device,
        threads=request.threads,
        batch_size=inference.batch_size,
        serialized_bytes=sum(model.graph[name].param_bytes for name in model.graph.names),
        runtime_bytes=max(0, resident - bare[0]) + shared,
        shared_bytes=shared,
        runtime_gpu_bytes=framework(inference.source.framework).accelerator_bytes(),
        input_seconds=input_seconds,
        seconds=seconds,
    )


def _seconds(
    request: ProfilingRequest, model: TracedModel, records: pa.RecordBatch
) -> tuple[float, tuple[tuple[int, float], ...]]:
    """Seconds of one record: for its input, and by depth, where each part continues from the one before it."""
    begin = [layer for feed in request.inference.feeds for layer in feed.take(records).arrays]
    plan = plan_layers(model.graph.above(begin), request.depths, "staged")
    inputs: list[float] = []
    parts: list[list[float]] = [[] for _ in plan.stages]
    for _ in range(_TIMED_RUNS):
        started = time.perf_counter()
        have: dict[str, NDArray[np.generic]] = {}
        for feed in request.inference.feeds:
            have |= feed.take(records).arrays
        inputs.append(time.perf_counter() - started)
        for seconds_of_stage, stage in zip(parts, plan.stages, strict=True):
            want = list(dict.fromkeys((*stage.targets, *stage.writes)))
            started = time.perf_counter()
            tensors = model.run({name: have[name] for name in stage.reads}, [name for name in want if name not in have])
            seconds_of_stage.append(time.perf_counter() - started)
            have |= tensors
    points: list[tuple[int, float]] = []
    flops, passed = 0, 0.0
    for seconds_of_stage, stage in zip(parts, plan.stages, strict=True):
        flops += stage.flops
        passed += statistics.median(seconds_of_stage) / records.num_rows
        points.append((flops, passed))
    return statistics.median(inputs) / records.num_rows, tuple(points)


def _resident() -> tuple[int, int]:
    """Return the resident memory of this process in bytes: private memory and mapped files."""
    memory = process_memory()
    return memory["RssAnon"], memory["RssFile"]


def _main() -> None:
    import pandas as pd  # noqa: F401 - what a worker has before it runs anything
    import pyarrow as pa  # noqa: F401
    import pyspark.worker  # noqa: F401
    from pyspark.serializers import CloudPickleSerializer

    bare = _resident()
    request: Any = CloudPickleSerializer().loads(sys.stdin.buffer.read())  # type: ignore[no-untyped-call]
    sys.stdout.write(f"\n{json.dumps(_answer(request, bare).to_dict())}\n")


if __name__ == "__main__":
    _main()
