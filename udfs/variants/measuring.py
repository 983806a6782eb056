"""Costs of networks, measured in a process of their own.

That process is ``python -m udfs.variants.measuring``: it reads a request from its standard input and answers in JSON.
It measures memory and loading in a forked process per network, so that no network finds memory of another one, and
times batches in rounds over all networks, so that a slow moment of the machine meets all of them.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from optimizer.errors import CerebroError
from udfs.node import NewProcessError, ask_new_process, hardware, process_memory
from udfs.weights import local_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import nn

__all__ = ["COSTS", "Costs", "CostsTask", "MeasuredNetwork", "MeasuringError", "measure_costs"]

COSTS = pa.schema([pa.field("costs", pa.string())])
"""Schema of what a task returns: a JSON document per network."""


class MeasuringError(CerebroError, RuntimeError):
    """The measuring process failed; the message has its last line."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured costs of a network.

    Parameters
    ----------
    resident_bytes : int
        Memory that is added by opening the network and running it on one image: its weights and activations.
    load_seconds : float
        Time from the file to the first answer.
    run_seconds : mapping of int to float
        Median time of a batch, by batch size.
    measured_on : str
        Processor on which it was measured, and the number of threads of a run.
    """

    resident_bytes: int
    load_seconds: float
    run_seconds: dict[int, float]
    measured_on: str


@dataclass(frozen=True, slots=True)
class MeasuredNetwork:
    """A network to measure.

    Parameters
    ----------
    name : str
        Name, for errors.
    load : callable
        Function that loads the network from its file.
    shape : tuple of int
        Shape of an image.
    file : str, optional
        File of the weights, whose mapped pages are counted.
    """

    name: str
    load: Callable[[], nn.Module]
    shape: tuple[int, ...]
    file: str | None = None


@dataclass(frozen=True, slots=True)
class CostsTask:
    """Measurement of networks on a worker. Call it with ``mapInArrow`` on one row.

    Parameters
    ----------
    networks : tuple of MeasuredNetwork
        Networks of torch.
    batch_sizes : tuple of int
        Batch sizes to time.
    rounds : int
        Number of times that each batch is timed. Default 5.
    threads : int
        Number of threads of a run. Default 1.
    """

    networks: tuple[MeasuredNetwork, ...]
    batch_sizes: tuple[int, ...]
    rounds: int = 5
    threads: int = 1

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Measure the networks once, for the first row."""
        if sum(batch.num_rows for batch in batches):
            documents = [json.dumps(asdict(costs)) for costs in measure_costs(self)]
            yield pa.record_batch([pa.array(documents, pa.string())], schema=COSTS)


def measure_costs(request: CostsTask) -> list[Costs]:
    """Measure networks in a new process, in their order.

    Raises
    ------
    MeasuringError
        The process ended without an answer.
    """
    try:
        answers = ask_new_process("udfs.variants.measuring", request, request.threads)
    except NewProcessError as error:
        raise MeasuringError(f"the process that measures variants {error}") from error
    return [
        Costs(
            entry["bytes"],
            entry["load"],
            {int(size): seconds for size, seconds in entry["runs"].items()},
            f"{hardware()}, {request.threads} thread{'s' if request.threads > 1 else ''}",
        )
        for entry in answers
    ]


def _answers(request: CostsTask) -> list[dict[str, Any]]:
    import torch

    torch.set_num_threads(request.threads)
    _warm_up()
    answers = [_forked(network) for network in request.networks]
    networks = [(network.load(), network.shape) for network in request.networks]
    timed: list[dict[int, list[float]]] = [{size: [] for size in request.batch_sizes} for _ in networks]
    with torch.inference_mode():
        for number in range(request.rounds + 1):
            for (network, shape), times in zip(networks, timed, strict=True):
                for size, seconds in times.items():
                    batch = torch.rand(size, *shape)
                    started = time.perf_counter()
                    network(batch)
                    if number:  # the first round warms up
                        seconds.append(time.perf_counter() - started)
    for answer, times in zip(answers, timed, strict=True):
        answer["runs"] = {size: statistics.median(seconds) for size, seconds in times.items()}
    return answers


def _warm_up() -> None:
    """Touch the pages of the libraries, which all networks of a process share."""
    import torch
    from torch import nn

    import udfs.variants.torch  # noqa: F401 - what variants of the roster are built by

    with suppress(ImportError):
        import onnxruntime  # noqa: F401 - variants without it do not need it
    layers = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    with torch.inference_mode():
        nn.Sequential(*layers).eval()(torch.rand(1, 3, 32, 32))
    with torch.device("meta"):
        nn.Linear(2, 2)


def _forked(network: MeasuredNetwork) -> dict[str, Any]:
    """Load and run a network in a copy of this process, which ends with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        answer = json.loads(text or '{"error": "its process was ended"}')
        if "error" in answer:
            raise MeasuringError(f"{network.name} could not be measured: {answer['error']}")
        return dict(answer)
    try:
        os.close(reading)
        try:
            answer = _loaded(network)
        except Exception as error:  # noqa: BLE001 - told to the parent, whose error it becomes
            answer = {"error": f"{type(error).__name__}: {error}"}
        with os.fdopen(writing, "w") as pipe:
            pipe.write(json.dumps(answer))
    finally:
        os._exit(0)


def _loaded(measured: MeasuredNetwork) -> dict[str, Any]:
    import torch

    image = torch.rand(1, *measured.shape)
    before = process_memory()["RssAnon"]
    started = time.perf_counter()
    network = measured.load()
    Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
    with torch.inference_mode():
        network(image)
    seconds = time.perf_counter() - started
    memory = process_memory()
    # Pages of libraries are the process's; those of the weights are the network's.
    resident = memory["VmHWM"] - memory["RssFile"] - before + _mapped(measured.file)
    return {"bytes": max(1, resident), "load": seconds}


def _mapped(file: str | None) -> int:
    """Return the resident bytes of a mapped file; of a remote one its copy on this node is mapped."""
    if file is None:
        return 0
    path, resident, counts = str(local_file(file).resolve()), 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            counts = rest.endswith(path)
        elif name == "Rss:" and counts:
            resident += 1024 * int(rest.split()[0])
    return resident


def _main() -> None:
    from pyspark.serializers import CloudPickleSerializer

    import udfs.weights.shared  # noqa: F401

    request: Any = CloudPickleSerializer().loads(sys.stdin.buffer.read())  # type: ignore[no-untyped-call]
    sys.stdout.write(f"\n{json.dumps(_answers(request))}\n")


if __name__ == "__main__":
    _main()
