"""Draw what two backends do: every batch of a second, as it ran. The picture of docs/serving.md.

``python examples/serving_timeline.py --out timeline.png`` serves the three models of Table 3.2 (emulated: they sleep as
long as the table says) by the plan of section 3.2.1, at the rates that it plans for, and draws a part of the run.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from optimizer.serving import BatchingProfile
from udfs.serving import RequestError, TensorSpec
from vista_spark import session
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from concurrent.futures import Future

    from vista_spark.serving import Api

PROFILES = {
    "A": BatchingProfile({1: 31.25, 4: 50, 8: 75, 16: 100}),
    "B": BatchingProfile({1: 20, 4: 50, 8: 90, 16: 125}),
    "C": BatchingProfile({1: 33.75, 4: 60, 8: 95, 16: 125}),
}
SLOS_MS = {"A": 200.0, "B": 250.0, "C": 250.0}
RATES = {"A": 64.0, "B": 32.0, "C": 32.0}
"""Table 3.2 and section 3.2.1 of the thesis."""

INPUTS = (TensorSpec("x", "float32", (-1, 1)),)

# The last second but one is drawn, and the first one is none of the usual ones.
_LEAST_S = 3.0

_COLOURS = {"A": "tab:blue", "B": "tab:orange", "C": "tab:green"}


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that ran.

    Parameters
    ----------
    process : int
    model : str
    rows : int
    began_s, ended_s : float
        From the first request on.
    """

    process: int
    model: str
    rows: int
    began_s: float
    ended_s: float


@dataclass(frozen=True, slots=True)
class Emulated:
    """A function of whole batches that sleeps as long as its profile says.

    Parameters
    ----------
    profile : BatchingProfile
        Milliseconds by batch size.
    """

    profile: BatchingProfile

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sleep for one batch; return the process, the rows, and the begin and end in seconds."""
        began = time.monotonic()
        count = len(arrays["x"])
        until = began + float(self.profile.latencies[count]) / 1000
        while (now := time.monotonic()) < until:
            time.sleep(until - now)
        values = {"process": os.getpid(), "batch": count, "began_s": began, "ended_s": now}
        return {name: np.full(count, value) for name, value in values.items()}


def load(api: Api, seconds: float) -> tuple[list[Batch], float]:
    """Send the planned rates, evenly spaced; gives the batches that ran and the share that was in time."""
    due = sorted((at / rate, name) for name, rate in RATES.items() for at in range(int(seconds * rate)))
    models = {name: api[name] for name in RATES}
    row = np.zeros(1, np.float32)
    start = time.monotonic()
    asked: list[tuple[str, float, Future[Any]]] = []
    for at, name in due:
        time.sleep(max(0.0, start + at - time.monotonic()))
        asked.append((name, at, models[name].execute(row)))
    batches, in_time = set(), 0
    for name, at, future in asked:
        try:
            answer = future.result(30)
        except RequestError:
            continue
        began, ended = (float(answer[key]) - start for key in ("began_s", "ended_s"))
        batches.add(Batch(int(answer["process"]), name, int(answer["batch"]), began, ended))
        in_time += 1000 * (ended - at) <= SLOS_MS[name]
    return sorted(batches, key=lambda batch: batch.began_s), in_time / len(asked)


def drawn(batches: Sequence[Batch], since_s: float, until_s: float) -> Figure:
    """Draw batches: a row a backend, a bar a batch with its number of rows.

    Parameters
    ----------
    batches : sequence of Batch
    since_s, until_s : float
        What is shown.
    """
    # The backend that runs A is the plan's first.
    processes = sorted({batch.process for batch in batches}, key=lambda one: _first(batches, one))
    figure = Figure(figsize=(11, 1.1 + 0.75 * len(processes)), layout="constrained")
    axes = figure.subplots()
    for batch in batches:
        if batch.ended_s < since_s or batch.began_s > until_s:
            continue
        place, left, width = processes.index(batch.process), batch.began_s - since_s, batch.ended_s - batch.began_s
        axes.barh(place, width, 0.7, left, color=_COLOURS[batch.model], edgecolor="white")
        if left >= 0 and left + width <= until_s - since_s:
            axes.text(left + width / 2, place, str(batch.rows), ha="center", va="center", color="white")
    axes.set_yticks(range(len(processes)), [f"backend-{place}" for place in range(len(processes))])
    axes.invert_yaxis()
    axes.set_xlim(0, until_s - since_s)
    axes.set_xlabel("seconds; the numbers are rows of a batch; emulated")
    handles = [Patch(color=colour, label=f"{name}, {RATES[name]:g}/s") for name, colour in _COLOURS.items()]
    axes.legend(handles=handles, loc="upper right", bbox_to_anchor=(1, 1.35), ncols=3, frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _first(batches: Sequence[Batch], process: int) -> str:
    return min(batch.model for batch in batches if batch.process == process)


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve, load, draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the picture")
    parser.add_argument("--seconds", type=float, default=6.0, help="of load; the last one but one is drawn")
    options = parser.parse_args(arguments)
    if options.seconds < _LEAST_S:
        parser.error(f"--seconds {options.seconds}: at least {_LEAST_S:g}")
    spark = session("local[3]", conf={"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"})
    server = Server(spark, backends=2)
    for name, profile in PROFILES.items():
        options = {"inputs": INPUTS, "profile": profile, "slo_ms": SLOS_MS[name], "rate": RATES[name]}
        server.deploy(Session(name, model=Emulated(profile), **options))
    print(server.plan().explain())
    with server.start() as api:
        batches, share = load(api, options.seconds)
    print(f"emulated: {len(batches)} batches, {100 * share:.1f} % in time")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    drawn(batches, options.seconds - 2, options.seconds - 1).savefig(options.out, dpi=110)
    spark.stop()


if __name__ == "__main__":
    main()
