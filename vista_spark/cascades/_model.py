"""Fitted cascade: proxies with thresholds, the oracle, and a certificate."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from pyspark.ml import Model
from pyspark.ml.util import MLReadable, MLWritable

from optimizer.cascades import Certificate
from udfs.arrow import RowMap, RowPolicy
from udfs.cascades import CascadeScoring
from udfs.driver import check_absent, map_rows
from vista_spark.cascades._members import aligned, bind
from vista_spark.cascades._params import CascadeColumns
from vista_spark.cascades._persistence import MembersReader, MembersWriter
from vista_spark.errors import ColumnError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from udfs.arrow import ErrorPolicy

__all__ = ["CascadeModel"]


class CascadeModel(Model, CascadeColumns, MLReadable[Any], MLWritable):
    """Model of a :class:`vista_spark.Cascade`: adds the prediction, its probabilities and the model that answered.

    Parameters
    ----------
    members : sequence of models
        Proxies in the order in which they run, and the oracle.
    certificate : Certificate
        Guarantee, thresholds and measurements.
    labels : sequence of str or float
        Classes of the oracle.

    Attributes
    ----------
    certificate : optimizer.cascades.Certificate
        Guarantee, thresholds and measurements of the sample.
    """

    __module__ = "vista_spark"  # the path that a saved pipeline has: it outlives a move of this file

    def __init__(self, members: Sequence[Any], certificate: Certificate, labels: Sequence[Any]) -> None:
        super().__init__()
        self._members, self._labels = tuple(members), tuple(labels)
        self.certificate = certificate

    def explain(self) -> str:
        """Describe the certificate."""
        return self.certificate.explain()

    def write(self) -> MembersWriter:
        """Return a writer of the Params, the certificate and the models."""
        facts = {"certificate": asdict(self.certificate), "labels": list(self._labels)}
        return MembersWriter(self, facts, list(self._members))

    @classmethod
    def read(cls) -> MembersReader:
        """Return a reader of what :meth:`write` wrote."""
        return MembersReader(cls)

    @classmethod
    def _loaded(cls, facts: dict[str, Any], members: list[Any]) -> CascadeModel:
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in facts["certificate"].items()
        }
        return cls(members, Certificate(**values), facts["labels"])

    @property
    def used_members(self) -> tuple[Any, ...]:
        """Models that run, in their order: proxies with a threshold, and the oracle."""
        return tuple(self._members[place] for place in self._used)

    @property
    def _used(self) -> list[int]:
        thresholds, last = self.certificate.thresholds, len(self._members) - 1
        return [place for place, least in enumerate(thresholds) if least is not None or place == last]

    def scoring(self, dataset: DataFrame) -> tuple[CascadeScoring, dict[str, Column | str]]:
        """Return the function that executors run for a DataFrame, and what it reads.

        Raises
        ------
        ColumnError
            A column that a model reads is missing, or of the wrong type.
        """
        certificate, used = self.certificate, self._used
        labels, names = self._labels, [certificate.models[place] for place in used]
        bound = [bind(name, self._members[place], dataset) for name, place in zip(names, used, strict=True)]
        members = aligned(names, bound, labels)
        scoring = CascadeScoring(
            members=members,
            thresholds=tuple(cast("float", certificate.thresholds[place]) for place in used[:-1]),
            metric=certificate.metric,
            positive=certificate.positive,
            labels=labels,
            columns=(self.getPredictionCol(), self.getProbabilityCol(), self.getAnsweredByCol()),
            batch_size=self.getBatchSize(),
            reuse=self.getReuse() or "",
        )
        reads = {
            f"{place}.{name}": each.reads[name] for place, each in enumerate(bound) for name in each.function.reads
        }
        return scoring, reads

    def _transform(self, dataset: DataFrame) -> DataFrame:
        scoring, reads = self.scoring(dataset)
        reason = self.getErrorCol() if self.getErrors() == "null" else None
        added = [field.name for field in scoring.adds] + ([reason] if reason else [])
        if len(set(added)) < len(added):
            raise ColumnError(
                f"predictionCol, probabilityCol, answeredByCol and errorCol must differ, got {', '.join(added)}."
            )
        remedy = "set another predictionCol, probabilityCol, answeredByCol or errorCol, or drop it first"
        check_absent(dataset, added, remedy)
        rows = RowMap(scoring, tuple(dataset.columns), RowPolicy(cast("ErrorPolicy", self.getErrors()), reason))
        vectors = {self.getProbabilityCol(): len(scoring.labels)} if self.getProbabilityCol() else {}
        return map_rows(dataset, rows, reads=reads, vectors=vectors, sends="either")
