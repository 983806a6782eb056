"""``ScheduleSearch``: one schedule of hyperparameters, trained alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cerebro_spark.tune._search import Search
from optimizer import procedures
from udfs.driver import hint_keywords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.procedures import Schedule

__all__ = ["ScheduleSearch"]


@hint_keywords
@dataclass(kw_only=True, eq=False)
class ScheduleSearch(Search):
    """Train one schedule, for example that of PBT's best: each segment is a clone of the one before.

    Parameters
    ----------
    segments : Schedule
        Of :meth:`Selection.schedule_of`, or made of :class:`optimizer.procedures.Segment`.
    **settings
        Of :class:`Search`. Another ``seed`` or other data show whether the schedule is good beyond the run it is of.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or there is no such parameter.
    TrainerError
        ``trainer_fn`` cannot be sent to the workers.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.sql import SparkSession
    >>> from cerebro_spark import SparkBackend, Store
    >>> from optimizer.procedures import Schedule, Segment
    >>> search = ScheduleSearch(
    ...     backend=SparkBackend(SparkSession.active(), num_workers=2),
    ...     store=Store.from_uri(tempfile.mkdtemp()),
    ...     trainer_fn=lambda params: ...,
    ...     segments=Schedule((Segment({"lr": 0.1}, 2), Segment({"lr": 0.08}, 3))),
    ...     feature_columns=["age", "hours"],
    ...     label_columns=["label"],
    ... )
    >>> search.plan().epochs_each
    5
    """

    segments: Schedule

    def procedure(
        self, *, metric: str | Sequence[str] = "loss", mode: str | Sequence[str] = "min"
    ) -> procedures.Replay:
        """See :meth:`Search.procedure`."""
        return procedures.Replay(self.segments, **self._rules(metric, mode))

    def sample(self) -> dict[str, Any]:
        """See :meth:`Search.sample`."""
        return dict(self.segments.segments[0].params)
