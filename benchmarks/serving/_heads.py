"""Ten heads over one trunk, beside ten whole networks: memory, one image for all, and ten images."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save_file

from benchmarks.harness.photographs import jpegs
from benchmarks.serving._load import backend_processes
from vista_spark import roster
from vista_spark.network import network
from vista_spark.serving import Server, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from benchmarks.harness.report import Report
    from benchmarks.serving._rate import Settings
    from optimizer.serving import BatchingProfile
    from vista_spark.serving import Api

__all__ = ["heads"]

# Deadlines play no part here: as many requests as the backend takes, and large batches.
_SLO_MS = 20_000.0
_CLASSES = 10
_IN_FLIGHT = 12
_MIB = 1 << 20


def heads(report: Report, spark: SparkSession, settings: Settings, count: int) -> None:
    """Serve one head, ten heads and ten whole networks from one backend each."""
    names = [f"head-{number}" for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        files = [_head(settings.model, Path(folder), number) for number in range(count)]

        def session(place: int, profile: BatchingProfile | None) -> Session:
            return _session(settings, names[place], profile, head=files[place])

        alone = Server(spark, backends=1, threads=settings.threads).deploy(session(0, None))
        profile = alone.profile(names[0])
        with alone.start() as api:
            _closed_loop(api, names[:1], 8, _one_image)
            one_mib = _pss()
        shared = Server(spark, backends=1, threads=settings.threads)
        for place in range(count):
            shared.deploy(session(place, profile))
        groups = [planned.name for planned in shared.plan().sessions]
        assert groups == ["+".join(names)], groups
        with shared.start() as api:
            together = _rates(api, names, settings.seconds)
            shared_mib = _pss()
        apart = Server(spark, backends=1, threads=settings.threads)
        for place, name in enumerate(names):
            # Networks whose weights differ share nothing.
            apart.deploy(_session(settings, name, profile, seed=1 + place))
        assert len(apart.plan().sessions) == count
        with apart.start() as api:
            separate = _rates(api, names, settings.seconds)
            apart_mib = _pss()
    flops = _flops_ratio(settings, count)
    rows = [
        ("1 head", f"{one_mib:.0f}", "", "", ""),
        (f"{count} heads, one trunk", f"{shared_mib:.0f}", *(f"{one:.1f}" for one in together), ""),
        (f"{count} networks", f"{apart_mib:.0f}", *(f"{one:.1f}" for one in separate), ""),
    ]
    columns = ("one backend", "its memory, MiB (PSS)", "answers/s, one image for all", "answers/s, an image each", "")
    report.table(f"{settings.model}, {count} heads over one trunk and {count} networks", columns, rows)
    meaning = f"memory of a backend with one head / with {count} heads"
    report.ratio("heads_memory", one_mib / shared_mib, meaning, 1 / 1.3)
    meaning = (
        f"answers/s of {count} heads / of {count} networks, one image for all, over the ratio of FLOPs {flops:.2f}"
    )
    report.ratio("heads_one_image", together[0] / separate[0] / flops, meaning, 0.9)
    meaning = f"answers/s of {count} heads / of {count} networks round robin, an image each"
    report.ratio("heads_many_images", together[1] / separate[1], meaning, 1.0)


def _session(
    settings: Settings, name: str, profile: BatchingProfile | None, head: Path | None = None, seed: int = 0
) -> Session:
    weights = None if head is None else settings.weights
    model, size = settings.model, settings.image_size
    return Session(
        name,
        model=model,
        weights=weights,
        head=head,
        image_size=size,
        slo_ms=_SLO_MS,
        profile=profile,
        seed=seed,
        rate=1,
    )


def _head(model: str, folder: Path, number: int) -> Path:
    """Draw a head over what the topmost layer of a network reads."""
    torch.manual_seed(number)
    module = roster.load(model).get_submodule(roster.card(model).resolve(1)[0].module)
    linear = next(layer for layer in module.modules() if isinstance(layer, torch.nn.Linear))
    file = folder / f"head-{number}.safetensors"
    save_file(torch.nn.Linear(linear.in_features, _CLASSES).state_dict(), file)
    return file


def _flops_ratio(settings: Settings, count: int) -> float:
    """Compute FLOPs of so many whole networks over those of one trunk and as many heads."""
    graph = network(settings.model, settings.weights, 0, settings.image_size, None).graph
    whole, top = graph.flops(), graph.flops(graph.outputs)
    head = top * _CLASSES / graph[graph.outputs[0]].output_shape[-1]
    return count * whole / (whole - top + count * head)


def _rates(api: Api, names: Sequence[str], seconds: float) -> tuple[float, float]:
    for way in (_one_image, _an_image_each):
        _closed_loop(api, names, 1, way)
    return _closed_loop(api, names, seconds, _one_image), _closed_loop(api, names, seconds, _an_image_each)


def _one_image(files: Sequence[bytes], number: int, count: int) -> list[bytes]:
    return [files[number % len(files)]] * count


def _an_image_each(files: Sequence[bytes], number: int, count: int) -> list[bytes]:
    return [files[(number * count + place) % len(files)] for place in range(count)]


def _closed_loop(
    api: Api, names: Sequence[str], seconds: float, way: Callable[[Sequence[bytes], int, int], list[bytes]]
) -> float:
    """Keep some rounds of requests, one per model, in flight and return the answers per second."""
    files = jpegs(64)
    rounds: deque[list[Any]] = deque()
    began, answered, number = time.perf_counter(), 0, 0
    while time.perf_counter() < began + seconds or rounds:
        if time.perf_counter() < began + seconds and len(rounds) < _IN_FLIGHT:
            asked = zip(names, way(files, number, len(names)), strict=True)
            rounds.append([api[name].execute(content) for name, content in asked])
            number += 1
            continue
        for future in rounds.popleft():
            future.result(_SLO_MS / 1000 + 30)
            answered += 1
    return answered / (time.perf_counter() - began)


def _pss() -> float:
    """Read the memory of the process that has computed most, its share of what it has in common with others."""
    return float(backend_processes()[0].memory_full_info().pss) / _MIB
