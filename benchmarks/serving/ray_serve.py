"""The highest good rate of a served network beside that of Ray Serve's ``@serve.batch``, with the same model and load.

Ray is not needed elsewhere here, so it goes into an environment of its own that also sees this one's packages::

    python -m venv ray
    echo "$PWD/.venv/lib/python3.11/site-packages" > ray/lib/python3.11/site-packages/main.pth
    ray/bin/pip install "ray[serve]"
    PYTHONPATH=$PWD ray/bin/python -m benchmarks.serving.ray_serve

Both sides have as many replicas or backends, of as many threads, and decode the same JPEGs by the same code; the client
is one process that sends requests when they are due (Poisson), and the rate is searched at which 99 % are answered
within the SLO. Ray Serve batches what has come when a replica is free, up to ``--batches``, and waits for more for
``--wait`` milliseconds; the best of these settings counts. It knows no deadlines: at twice the rate it answers late.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import ray
import torch
from ray import serve

from benchmarks.harness.report import Report, load_average
from benchmarks.harness.weights import found_weights
from benchmarks.serving._load import Client, Load
from benchmarks.serving._rate import Settings, rate
from benchmarks.serving._search import highest
from udfs.images import decode
from vista_spark import roster, session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

_WARM_S = 2.0
_PORT = 8713

# Images per second of a core, where the search begins.
_GUESS = 8.0


@dataclass(frozen=True)
class _Address:
    """Address of a server, as the client needs it."""

    url: str
    token: str = ""


def _application(settings: Settings, batch: int, wait_ms: float) -> Any:
    """Build the application of Ray Serve: replicas of one network that batch waiting requests."""

    @serve.deployment(
        num_replicas=settings.backends,
        ray_actor_options={"num_cpus": settings.threads},
        max_ongoing_requests=4 * batch,
        max_queued_requests=512,
    )
    class Network:
        def __init__(self) -> None:
            torch.set_num_threads(settings.threads)
            card = roster.card(settings.model)
            # The faster layout of the bare loop that `vs_bare` compares with.
            self.network = roster.load(card, settings.weights).eval().to(memory_format=torch.channels_last)
            size = settings.image_size
            self.preprocessing = card.preprocessing if size is None else card.preprocessing.with_size(size)

        @serve.batch(max_batch_size=batch, batch_wait_timeout_s=wait_ms / 1000)
        async def classify(self, images: list[bytes]) -> list[list[float]]:
            pixels = torch.from_numpy(np.stack([decode(image, self.preprocessing) for image in images]))
            pixels = pixels.to(memory_format=torch.channels_last)
            with torch.inference_mode():
                return list(self.network(pixels).numpy().tolist())

        async def __call__(self, request: Request) -> Any:
            return await self.classify(await request.body())

    return Network.bind()  # type: ignore[attr-defined]


def _ray(report: Report, client: Client, settings: Settings, batches: Sequence[int], waits: Sequence[float]) -> float:
    """Search the highest good rate of Ray Serve over its settings, and return the best."""
    path = os.pathsep.join(filter(None, (str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH"))))
    ray.init(
        num_cpus=settings.backends * settings.threads + 1,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    rows, best = [], (0.0, "")
    for batch in batches:
        for wait_ms in waits if batch > 1 else waits[:1]:
            name = f"batches of {batch} at most, {wait_ms:g} ms"
            serve.start(http_options={"host": "127.0.0.1", "port": _PORT})
            serve.run(_application(settings, batch, wait_ms), route_prefix="/")
            address: Any = _Address(f"http://127.0.0.1:{_PORT}")

            def share(
                at: float, seconds: float = settings.seconds, seed: int = 0, address: Any = address, name: str = name
            ) -> float:
                loaded = client.run(address, Load({settings.model: at}, seconds, settings.slo_ms, seed))
                print(f"Ray Serve, {name}, at {at:.1f}/s: {100 * loaded.share:.1f} % in time", file=sys.stderr)
                return loaded.share

            if not share(2.0, _WARM_S):
                raise RuntimeError("Ray Serve answers nothing in time: its logs say why")
            found = highest(share, _GUESS * settings.backends)
            twice = share(2 * found, seed=1) if found else 0.0
            rows.append((name, f"{found:.1f}/s", f"{2 * 100 * twice:.0f} %"))
            best = max(best, (found, name))
            serve.shutdown()
    ray.shutdown()
    title = f"Ray Serve {ray.__version__}, {settings.backends} replicas x {settings.threads} threads"
    report.table(title, ("setting", "highest good rate", "good rate at twice of it"), rows)
    report.note(f"Ray Serve's best: {best[1] or 'none'}.")
    return best[0]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the load on both servers and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mobilenet_v2", help="of the roster")
    parser.add_argument("--weights", default="auto", help="a path, or random; auto: MobileNetV2's if installed")
    parser.add_argument("--slo", type=float, default=500, help="milliseconds")
    parser.add_argument("--backends", type=int, default=os.cpu_count() or 2, help="and replicas; by default one a core")
    parser.add_argument("--seconds", type=float, default=6, help="of each try of a rate")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4, 8], help="Ray Serve's largest batches")
    parser.add_argument("--wait", type=float, nargs="+", default=[10.0], help="milliseconds that they wait to be full")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    report = Report(f"Serving beside Ray Serve, {os.cpu_count()} cores; the load comes from a process of its own")
    weights = found_weights(options.weights, options.model)
    settings = Settings(options.model, weights, None, options.backends, 1, options.slo, options.seconds)
    conf = {"spark.ui.enabled": "false", "spark.python.worker.reuse": "false"}
    with Client() as client:
        theirs = _ray(report, client, settings, options.batches, options.wait)
        spark = session(f"local[{options.backends + 2}]", conf=conf)
        rate(report, spark, client, settings)
        spark.stop()
    ours = report.facts.get("highest_good_rate", 0.0)
    if theirs and ours:
        report.ratio("vs_ray_serve", ours / theirs, "highest good rate / that of Ray Serve at its best setting", 1.0)
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
