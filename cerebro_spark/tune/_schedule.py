"""Training of one schedule of hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cerebro_spark.tune._search import Search
from cerebro_spark.tune._strategy import Strategy
from optimizer import procedures
from udfs.driver import validate_arguments

if TYPE_CHECKING:
    from optimizer.procedures import Schedule

__all__ = ["ScheduleSearch"]


@validate_arguments
@dataclass(kw_only=True, eq=False)
class ScheduleSearch(Search):
    """Train one schedule, for example that of PBT's best: each segment is a clone of the one before.

    Another ``seed`` or other data show whether the schedule is good beyond the run that it comes from.

    All settings of :class:`Search` are keyword arguments too.

    Parameters
    ----------
    segments : Schedule
        Schedule to train, from :meth:`Selection.schedule_of` or made of :class:`optimizer.procedures.Segment`.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or the search has no such parameter.
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

    @property
    def strategy(self) -> Strategy:
        """See :attr:`Search.strategy`."""
        return Strategy(partial(procedures.Replay, self.segments), lambda: [dict(self.segments.segments[0].params)])
