"""Answers of the members of a cascade on a sample, asked in rounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from optimizer.cascades import NO_ANSWER
from udfs.arrow import RowMap, RowPolicy
from udfs.cascades import SampleScoring
from udfs.driver import map_rows, quoted
from vista_spark.errors import EmptyInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from udfs.cascades import ClassScores, Member

__all__ = ["MeasuredSample", "TimedOracle"]

_ID = "row"


class MeasuredSample:
    """A sample with stable row numbers, whose rows pass through members and are measured.

    Use it as a context manager: it keeps the columns that members read in Spark's storage.

    Parameters
    ----------
    dataset : DataFrame
        Rows of the sample.
    members : sequence of ClassScores
        All members; the oracle is last.
    options : mapping
        Fields of :class:`udfs.cascades.SampleScoring` beside the members.
    """

    def __init__(self, dataset: DataFrame, members: Sequence[ClassScores], options: Mapping[str, Any]) -> None:
        self._options = options
        self.width = 0  # number of classes, once proxies have run
        self._names: list[dict[str, Column | str]] = []
        columns: dict[str | int, Column] = {}
        for bound in members:
            names: dict[str, Column | str] = {}
            for name in bound.function.reads:
                source = bound.reads[name]
                key = source if isinstance(source, str) else id(source)
                if key not in columns:
                    value = F.col(quoted(source)) if isinstance(source, str) else source
                    columns[key] = value.alias(f"c{len(columns)}")
                names[name] = f"c{list(columns).index(key)}"
            self._names.append(names)
        self._frame = dataset.select(*columns.values()).withColumn(_ID, F.monotonically_increasing_id())
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)

    def __enter__(self) -> Self:
        self._frame = self._frame.persist()
        return self

    def __exit__(self, *_: object) -> None:
        self._frame.unpersist()

    def run_proxies(self, members: Sequence[Member]) -> tuple[NDArray[np.int64], NDArray[np.float64], list[float]]:
        """Run proxies on all rows; return their answers, their confidence, and their seconds per row.

        Raises
        ------
        EmptyInputError
            The sample has no rows.
        """
        table = self._run(self._frame, members, range(len(members)), self._options)
        if not table.num_rows:
            raise EmptyInputError("sample must have rows, got an empty DataFrame. Fit the cascade on rows to answer.")
        self._ids = table.column(_ID).to_numpy()
        places = range(len(members))
        self.width = max(max(table.column(f"classes_{place}").to_pylist()) for place in places)
        self._options = {**self._options, "width": self._options["width"] or self.width}
        answers = np.array([table.column(f"answer_{place}").to_numpy() for place in places])
        confidence = np.array([table.column(f"confidence_{place}").to_numpy() for place in places])
        return answers, confidence, [_median(table.column(f"seconds_{place}").to_numpy()) for place in places]

    def ask(self, oracle: Member, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Run the oracle on some rows, given by their places; return its answers, and the seconds of each row."""
        wanted = self._ids[rows]
        frame = self._frame
        if len(rows) < len(self._ids):
            ids = frame.sparkSession.createDataFrame(pa.table({_ID: wanted}).to_pandas())
            frame = frame.join(F.broadcast(ids), _ID, "left_semi")
        # The oracle answers any class, whatever the metric.
        table = self._run(frame, [oracle], [len(self._names) - 1], {**self._options, "metric": "accuracy"})
        answered = table.column(_ID).to_numpy()
        places = np.searchsorted(answered, wanted, sorter=np.argsort(answered))
        order = np.argsort(answered)[places]
        answers = table.column("answer_0").to_numpy()[order]
        return np.where(answers < 0, NO_ANSWER, answers), table.column("seconds_0").to_numpy()

    def _run(
        self, frame: DataFrame, members: Sequence[Member], places: Sequence[int], options: Mapping[str, Any]
    ) -> pa.Table:
        function = SampleScoring(members=tuple(members), **options)
        reads: dict[str, Column | str] = {
            f"{at}.{name}": column for at, place in enumerate(places) for name, column in self._names[place].items()
        }
        rows = RowMap(function, (_ID,), RowPolicy("null"))
        return map_rows(frame, rows, reads=reads).toArrow()


class TimedOracle:
    """Oracle of a sample that counts and times its calls; call it with the places of rows.

    Parameters
    ----------
    sample : MeasuredSample
        Sample whose proxies have run.
    oracle : Member
        Model to ask.
    """

    def __init__(self, sample: MeasuredSample, oracle: Member) -> None:
        self._sample, self._oracle = sample, oracle
        self.calls = 0
        self.times: list[NDArray[np.float64]] = []

    @property
    def seconds(self) -> float:
        """Median time of a row; 0 if all answers were stored."""
        return _median(np.concatenate(self.times)) if self.times else 0.0

    def __call__(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the oracle's classes of some rows, ``NO_ANSWER`` without one."""
        answers, seconds = self._sample.ask(self._oracle, rows)
        self.calls += len(rows)
        self.times.append(seconds)
        return answers


def _median(seconds: NDArray[np.float64]) -> float:
    """Return the median time of a row; 0 if all answers were stored."""
    measured = seconds[np.isfinite(seconds)]
    return float(np.median(measured)) if len(measured) else 0.0
