"""Figures 11 and 12: cores and partitions by hand against the planner, scale-up and speed-up."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from benchmarks.harness.bare_inference import Arrangement, Fleet, Task
from benchmarks.harness.charts import lines, panels
from benchmarks.transfer._study import Cell
from vista_spark import roster

if TYPE_CHECKING:
    from benchmarks.transfer._study import Study

__all__ = ["cores_and_partitions", "scale_up"]

_COLUMNS = ("seconds of inference", "other seconds", "as it ran")

# As in the paper's Figures 11 and 12.
_FIXED = {"join": "shuffle", "persistence": "deserialized"}

# Instead of a number of partitions.
_PLANNED = 0


# Images for which two partitions a core are enough.
_PARTITIONED = 1024


def _some_cores(most: int) -> list[int]:
    doubled = [1 << power for power in range(most.bit_length())]
    return sorted({*doubled, most})


def cores_and_partitions(study: Study) -> None:
    """Figure 11: a sweep by hand, and what is chosen without one."""
    many = _some_cores(study.cores)
    partitions = sorted({1, study.cores, 4 * study.cores})
    cells = {
        (cores, number): Cell(cores, study.job("staged", partitions=number, **_FIXED))
        for cores in many
        for number in partitions
    }
    planners = {(cores, _PLANNED): Cell(cores, study.job()) for cores in many}
    found = study.time("figure 11", planners | cells)
    report = study.report
    report.table(
        f"Figure 11: runtime by cores and partitions, {study.images} images; by hand: staged, shuffle, deserialized",
        ("cores, partitions", *_COLUMNS),
        [
            (f"local[{cores}], {'the planner' if number == _PLANNED else number}", *timed.columns)
            for (cores, number), timed in found.items()
        ],
    )
    planned = found[study.cores, _PLANNED].seconds
    best = min(cells, key=lambda key: found[key].seconds)
    report.ratio(
        "planned_over_best",
        found[best].seconds / planned,
        f"the best of the sweep (local[{best[0]}], {best[1]} partitions) / what the planner chose",
        0.95,
    )
    # Whatever is fastest there, the planner's choice included.
    alone = min(found[1, number].seconds for number in (_PLANNED, *partitions))
    report.ratio(
        "vs_one_core",
        alone / planned,
        f"the best on local[1] / the planner's on local[{study.cores}]",
        0.95 * study.cores,
    )
    ceiling = _bare_speedup(study)
    report.ratio("vs_one_core_over_bare", alone / planned / ceiling, f"the same / the bare loops' {ceiling:.2f}")
    report.note("Bare loops: one process against one a core, NHWC, batch 4, malloc keeps memory, the same photographs.")
    figure, (axes,) = panels(f"Figure 11: {study.setup.model}, {study.images} images")
    series = {
        f"{cores} core{'s' if cores > 1 else ''}": [found[cores, number].seconds for number in partitions]
        for cores in many
    }
    lines(axes, partitions, series, "partitions", "seconds of inference", logarithmic=True)
    where = found[study.cores, _PLANNED].one.partitions
    axes.plot([where], [planned], "*", color="#d95f02", markersize=14, label=f"the planner, local[{study.cores}]")
    axes.legend(frameon=False, fontsize="small")
    study.save(figure, "figure11")


def _bare_speedup(study: Study) -> float:
    """Measure the machine's cores without Spark, by processes that share nothing."""
    setup, card = study.setup, roster.card(study.setup.model)
    size = setup.image_size
    preprocessing = card.preprocessing if size is None else card.preprocessing.with_size(size)
    task = Task(setup.model, setup.weights, tuple(layer.module for layer in card.resolve(study.layers)), preprocessing)
    files = pq.read_table(setup.images).column("image").to_pylist()[: study.images]
    seconds: dict[int, list[float]] = {1: [], study.cores: []}
    with (
        Fleet(task, files, 1, keep_memory=True) as alone,
        Fleet(task, files, study.cores, keep_memory=True) as together,
    ):
        for repeat in range(study.repeats + 1):
            for fleet, processes in ((alone, 1), (together, study.cores)):
                took, _ = fleet.run(Arrangement(processes, 1, 1, "NHWC", 4, keep_memory=True), len(files))
                # The first time they import and load.
                seconds[processes] += [took] if repeat else []
    return statistics.median(seconds[1]) / statistics.median(seconds[study.cores])


def scale_up(study: Study) -> None:
    """Figure 12: as much more work as there are cores, and the same work on more cores."""
    many = _some_cores(study.cores)
    # More images, more partitions: one has a bound (equation 14).
    partitions = {scale: 2 * study.cores * math.ceil(scale * study.images / _PARTITIONED) for scale in many}
    cells = {
        (cores, scale): Cell(cores, study.job("staged", scale=scale, partitions=partitions[scale], **_FIXED))
        for cores in many
        for scale in sorted({1, cores})
    }
    found = study.time("figure 12", cells)
    report = study.report
    report.table(
        f"Figure 12: scale-up and speed-up, 1x is {study.images} images; staged, shuffle, deserialized",
        ("cores, scale", *_COLUMNS),
        [(f"local[{cores}], {scale}x", *timed.columns) for (cores, scale), timed in found.items()],
    )
    alone = found[1, 1].seconds
    scaled = [alone / found[cores, cores].seconds for cores in many]
    sped = [alone / found[cores, 1].seconds for cores in many]
    last = study.cores
    report.ratio("scale_up", scaled[-1], f"1x on local[1] / {last}x on local[{last}]; 1 is ideal", 0.95)
    report.ratio("speedup_over_cores", sped[-1] / last, f"(1x on local[1] / 1x on local[{last}]) / {last}", 0.95)
    figure, (left, right) = panels(f"Figure 12: {study.setup.model}, staged, 1x is {study.images} images", 2)
    model = study.setup.model
    lines(left, many, {model: scaled}, "cores and data scale", "scale-up", ideal=[1.0] * len(many))
    lines(right, many, {model: sped}, "cores", "speed-up", ideal=[float(cores) for cores in many])
    study.save(figure, "figure12")
