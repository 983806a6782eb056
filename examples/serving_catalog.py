"""Compare a session of one model with a session of a catalog, below and above the capacity of the model.

``python examples/serving_catalog.py`` serves emulated variants, which sleep as long as a table says, and prints the
table of docs/serving.md. The accuracies are those of the table too.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.variants import Measurement
from udfs.serving import RequestError, TensorSpec
from vista_spark import session
from vista_spark.serving import Server, Session
from vista_spark.variants import Catalog, CatalogVariant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vista_spark.serving import Api

INPUTS = (TensorSpec("x", "float32", (-1, 1)),)
SLO_MS = 500.0
VARIANTS = {"full": (0.95, 20.0), "half": (0.92, 10.0), "tiny": (0.85, 4.0)}
"""Accuracy, and milliseconds per row; a batch takes half of that more."""


@dataclass(frozen=True, slots=True)
class Emulated:
    """A function of whole batches that sleeps.

    Parameters
    ----------
    row_ms : float
        Milliseconds per row.
    """

    row_ms: float

    def __call__(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Sleep for one batch; return the number of its rows."""
        count = len(arrays["x"])
        time.sleep((count + 0.5) * self.row_ms / 1000)
        return {"batch": np.full(count, count)}


def catalog() -> Catalog:
    """Return the emulated variants."""
    variants = []
    for name, (accuracy, row_ms) in VARIANTS.items():
        seconds = {size: (size + 0.5) * row_ms / 1000 for size in (1, 8)}
        measurement = Measurement(
            name,
            accuracy,
            rows=400,
            low=accuracy - 0.02,
            high=accuracy + 0.02,
            stored_bytes=1,
            resident_bytes=1,
            gflop=1.0,
            load_seconds=0.0,
            run_seconds=seconds,
            image_size=224,
        )
        emulated: Any = Emulated(row_ms)  # instead of a network
        variants.append(CatalogVariant(measurement, emulated))
    return Catalog("scene", ("indoor", "outdoor"), tuple(variants))


def load(api: Api, rate: float, seconds: float) -> Counter[str]:
    """Send requests at random times; count the answers by variant, and the errors."""
    gaps = np.random.default_rng(0).exponential(1 / rate, int(rate * seconds))
    start, asked = time.monotonic(), []
    for at in np.cumsum(gaps):
        time.sleep(max(0.0, start + at - time.monotonic()))
        asked.append(api["scene"].execute(np.zeros(1, np.float32)))
    ends: Counter[str] = Counter()
    for future in asked:
        try:
            answer: Any = future.result(30)
        except RequestError as error:
            ends[type(error).__name__] += 1
        else:
            ends[str(answer["variant"]) if isinstance(answer, dict) else "full"] += 1
    return ends


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve and load.

    Parameters
    ----------
    arguments : sequence of str, optional
        Arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of each load")
    options = parser.parse_args(arguments)
    spark = session("local[3]", conf={"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"})
    kinds = {
        "model": Session("scene", model=Emulated(VARIANTS["full"][1]), inputs=INPUTS, slo_ms=SLO_MS),
        "catalog": Session("scene", catalog=catalog(), inputs=INPUTS, slo_ms=SLO_MS),
    }
    print("| session | requests/s | answered in time | accuracy of the answers | full, half, tiny |")
    print("|---|---|---|---|---|")
    for kind, described in kinds.items():
        server = Server(spark, backends=1, epoch_s=5.0).deploy(described)
        with server.start() as api:
            for rate in (40.0, 80.0, 160.0):
                ends = load(api, rate, options.seconds)
                answered = sum(ends[name] for name in VARIANTS)
                correct = sum(ends[name] * accuracy for name, (accuracy, _) in VARIANTS.items()) / answered
                shares = ", ".join(f"{100 * ends[name] / answered:.0f} %" for name in VARIANTS)
                print(f"| {kind} | {rate:.0f} | {100 * answered / ends.total():.1f} % | {correct:.3f} | {shares} |")
    spark.stop()


if __name__ == "__main__":
    main()
