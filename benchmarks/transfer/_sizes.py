"""Figure C.3: estimated sizes of the intermediate tables against what Spark's cache holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import StorageLevel

from benchmarks.harness.charts import grouped, panels
from vista_spark.network import network
from vista_spark.transfer._stage import run_stage, stage_inference

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from benchmarks.transfer._job import Job, Workbench
    from benchmarks.transfer._study import Study

__all__ = ["sizes"]

_LEVELS = {"deserialized": StorageLevel.MEMORY_AND_DISK_DESER, "serialized": StorageLevel.MEMORY_AND_DISK}
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes of the tables, in the order of execution."""

    names: tuple[str, ...]
    estimated: tuple[int, ...]
    actual: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Request to materialize every table of a staged plan and measure the cache."""

    job: Job

    def run(self, bench: Workbench) -> Measured:
        """Run the plan and measure its tables."""
        choice = bench.transfer(self.job).choice
        tables = choice.physical.tables.tables
        said = {layer: choice.logical.names.get(layer, layer) for layer in choice.logical.targets}
        names = ("images", *(said[stage.targets[0]] for stage in choice.logical.stages))
        actual = {name: self._cached(bench, choice.logical.stages, level) for name, level in _LEVELS.items()}
        return Measured(names, tuple(table.total_bytes for table in tables), actual)

    def _cached(self, bench: Workbench, stages: tuple, level: StorageLevel) -> tuple[int, ...]:
        setup = bench.setup
        net = network(setup.model, setup.weights, 0, setup.image_size)
        structured, images = bench.tables(self.job.images, self.job.features)
        held: list[DataFrame] = []
        found: list[int] = []

        def hold(table: DataFrame) -> DataFrame:
            before = _storage(bench.spark)
            held.append(table.persist(level))
            table.count()
            found.append(_storage(bench.spark) - before)
            return table

        table = joined = hold(images.join(structured.hint("merge"), "id").repartition(bench.cores))
        for stage in stages:
            inference = stage_inference(
                net,
                stage,
                image="image",
                keep=("id", "label", "features"),
                pooling="max2x2",
                batch_size=setup.batch_size,
                device="cpu",
            )
            table = hold(run_stage(joined if stage.source is None else table, stage, inference))
        for one in held:
            one.unpersist(blocking=True)
        return tuple(found)


def _storage(spark: SparkSession) -> int:
    """Bytes of all cached tables, in memory and on disk."""
    held = spark.sparkContext._jsc.sc().getRDDStorageInfo()  # PySpark has no way of its own
    return sum(info.memSize() + info.diskSize() for info in held)


def sizes(study: Study) -> None:
    """Figure C.3."""
    found: Measured = study.master(study.cores).run(Sizes(study.job("staged")))
    report = study.report
    rows = list(zip(found.names, found.estimated, *found.actual.values(), strict=True))
    report.table(
        f"Figure C.3: MiB of the tables of the staged plan, {study.images} images",
        ("table", "estimated", *found.actual, "estimated / deserialized"),
        [
            (name, *(f"{size / _MIB:.2f}" for size in (estimate, *actual)), f"{estimate / actual[0]:.2f}")
            for name, estimate, *actual in rows
        ],
    )
    report.note("The estimate is to be an upper bound of the deserialized format, and no loose one.")
    least, name = min((estimate / actual[0], name) for name, estimate, *actual in rows)
    report.ratio("estimated_over_actual", least, f"estimated / cached bytes of {name}, the least of all tables", 1.0)
    figure, (axes,) = panels(f"Figure C.3: {study.setup.model}, staged, {study.images} images")
    series = {"estimated": found.estimated, **found.actual}
    grouped(axes, found.names, {name: [size / _MIB for size in values] for name, values in series.items()}, "MiB")
    study.save(figure, "figureC3")
