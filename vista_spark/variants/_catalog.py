"""``Catalog``: the measured variants of a network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from optimizer.approximate import CostCard, Task, pareto
from optimizer.errors import nearest
from optimizer.variants import Measurement, pareto_front
from vista_spark.errors import InvalidArgumentError
from vista_spark.features import CNNFeaturizer
from vista_spark.variants._copy import copy_catalog
from vista_spark.variants._measure import measure_accuracy, measure_cards
from vista_spark.variants._picture import draw_catalog

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from vista_spark.roster import ModelCard

__all__ = ["Catalog", "CatalogVariant"]


@dataclass(frozen=True, slots=True)
class CatalogVariant:
    """A variant of a network, with its weights and its measured costs.

    Parameters
    ----------
    measurement : Measurement
        Accuracy and costs.
    model : ModelCard
        The network, which `CNNFeaturizer`, `Session` and all other ``model=`` accept. Its topmost layer returns the
        scores of the classes.
    steps : tuple of str
        Descriptions of the changes to the original network, in the order in which they were made.
    """

    measurement: Measurement
    model: ModelCard
    steps: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the variant."""
        return self.measurement.name

    def featurizer(self, *, inputCol: str = "image", outputCol: str = "scores") -> CNNFeaturizer:
        """Return a stage that adds the scores of the classes, which is also a member of a `Cascade`."""
        return CNNFeaturizer(model=self.model, layers=-1, inputCol=inputCol, outputCols=[outputCol])


@dataclass(frozen=True, slots=True)
class Catalog:
    """Variants of a network for one task, measured on the same validation rows (section 4.3.1 of the thesis).

    Parameters
    ----------
    task : str
        Name of the task.
    classes : tuple
        Labels, in the order of the scores.
    variants : tuple of CatalogVariant
        The original network first.
    path : str, optional
        Folder of the catalog.
    measured_on : str, optional
        Machine on which the costs were measured. Times and 8-bit results differ between machines.
    failures : mapping of str to str, optional
        Reasons why variants could not be built, by name.

    Raises
    ------
    InvalidArgumentError
        There is no variant, or two have the same name.
    """

    task: str
    classes: tuple[str | float, ...]
    variants: tuple[CatalogVariant, ...]
    path: str | None = None
    measured_on: str = ""
    failures: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [variant.name for variant in self.variants]
        if not names or len(set(names)) < len(names):
            raise InvalidArgumentError(f"variants must have at least one variant, with unique names, got {names}.")

    @property
    def full(self) -> CatalogVariant:
        """The original network with its head."""
        return self.variants[0]

    def __len__(self) -> int:
        return len(self.variants)

    def __iter__(self) -> Iterator[CatalogVariant]:
        return iter(self.variants)

    def __getitem__(self, name: str) -> CatalogVariant:
        """Return the variant of a name; raise InvalidArgumentError without one."""
        names = [variant.name for variant in self.variants]
        if name not in names:
            raise InvalidArgumentError(
                f"name must be a variant of the catalog ({', '.join(names)}), got {name!r}{nearest(str(name), names)}."
            )
        return self.variants[names.index(name)]

    def pareto(self, measure: str = "memory") -> tuple[CatalogVariant, ...]:
        """Return the variants that no cheaper one matches in accuracy, from the cheapest to the most accurate.

        Parameters
        ----------
        measure : {"memory", "storage", "latency", "compute", "load"}
            Cost that is compared. Default ``"memory"``.

        Raises
        ------
        InvalidArgumentError
            There is no such measure.
        """
        front = pareto_front((variant.measurement for variant in self.variants), measure)
        return tuple(self[entry.name] for entry in front)

    def plot(self, *measures: str) -> Figure:
        """Draw accuracy over costs, with the Pareto fronts.

        Parameters
        ----------
        *measures : {"memory", "storage", "latency", "compute", "load"}
            Costs, a panel each. Default ``"memory"`` and ``"latency"``.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig(path)`` elsewhere.

        Raises
        ------
        InvalidArgumentError
            There is no such measure.
        """
        entries = [variant.measurement for variant in self.variants]
        return draw_catalog(self.task, entries, measures or ("memory", "latency"))

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per variant: the fields of its `Measurement` (bytes, seconds, GFLOP), and its steps."""
        rows = []
        for variant in self.variants:
            row = asdict(variant.measurement) | {"steps": ", ".join(variant.steps)}
            runs = row.pop("run_seconds")
            rows.append(row | {f"run_seconds {size}": seconds for size, seconds in runs.items()})
        return pd.DataFrame(rows)

    def check(
        self,
        spark: SparkSession,
        valid: DataFrame | None = None,
        *,
        labelCol: str = "label",
        imageCol: str = "image",
    ) -> pd.DataFrame:
        """Measure the costs again, in a task of a session, and the accuracies if there are images.

        Parameters
        ----------
        spark : SparkSession
            Session whose workers measure.
        valid : DataFrame, optional
            The validation rows. Default: the accuracies are not measured.
        labelCol, imageCol : str
            Names of its columns. Default ``"label"`` and ``"image"``.

        Returns
        -------
        pandas.DataFrame
            Columns ``variant``, ``cost``, ``recorded``, ``measured`` and ``ratio``, measured over recorded.
        """
        sizes = tuple(self.full.measurement.run_seconds)
        again = measure_cards(spark, [variant.model for variant in self.variants], sizes)
        rows = []
        for variant, costs in zip(self.variants, again, strict=True):
            recorded = variant.measurement
            pairs = {name: (getattr(recorded, name), costs[name]) for name in ("resident_bytes", "load_seconds")}
            for size in sizes:
                pairs[f"run_seconds {size}"] = recorded.run_seconds[size], costs["run_seconds"][str(size)]
            if valid is not None:
                stage = variant.featurizer(inputCol=imageCol)
                pairs["accuracy"] = recorded.accuracy, measure_accuracy(stage, valid, labelCol, self.classes)
            rows += [
                (variant.name, cost, before, now, now / before if before else float("nan"))
                for cost, (before, now) in pairs.items()
            ]
        return pd.DataFrame(rows, columns=["variant", "cost", "recorded", "measured", "ratio"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Copy the catalog to a new folder: a JSON document, and the weights of each variant.

        Raises
        ------
        InvalidArgumentError
            The folder has files.
        """
        if self.path is None:
            raise InvalidArgumentError("path of the catalog must be a folder, got None: its variants have no files.")
        copy_catalog(self.path, path)

    def scheduled_task(self, card: CostCard | None = None, *, sent_bytes: int | None = None) -> Task:
        """Return the task for `optimizer.approximate`, without variants that another one dominates.

        Parameters
        ----------
        card : CostCard, optional
            Energy and dollars. Default: the card of the thesis.
        sent_bytes : int, optional
            Bytes of a request to the cloud. Default: no variant runs in the cloud.
        """
        priced = CostCard() if card is None else card
        return Task(
            self.task, pareto(variant.measurement.variant(priced, sent_bytes=sent_bytes) for variant in self.variants)
        )

    def explain(self) -> str:
        """Return a table of the variants and their costs."""
        lines = [f"{len(self)} variants of {self.task}, {self.full.measurement.rows} validation rows"]
        fronts = {measure: {variant.name for variant in self.pareto(measure)} for measure in ("memory", "latency")}
        for variant in self.variants:
            fact = variant.measurement
            best = ", ".join(measure for measure, names in fronts.items() if variant.name in names)
            lines.append(
                f"  {variant.name}: accuracy {fact.accuracy:.3f} [{fact.low:.3f}, {fact.high:.3f}], "
                f"{fact.resident_bytes / 1e6:.1f} MB resident, {fact.stored_bytes / 1e6:.1f} MB stored, "
                f"{1e3 * fact.latency:.1f} ms per image, {fact.gflop:.2f} GFLOP" + (f" (front: {best})" if best else "")
            )
        return "\n".join(lines)
