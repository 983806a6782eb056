"""``SpecializationTimeline``: phase, model and cost of labelled streams over time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from optimizer.arguments import real
from udfs.specialization import ORACLE, REPEAT
from vista_spark.errors import EmptyInputError, InvalidArgumentError
from vista_spark.specialization._timeline_picture import draw_timeline

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from optimizer.specialization import Policy

__all__ = ["SpecializationTimeline", "measure_timeline"]

_BINS = 120
_MOST_BINS = 10_000
_COUNTS = ("frames", "checked", "correct")


@dataclass(frozen=True, slots=True)
class SpecializationTimeline:
    """Phases, models, cost and accuracy of labelled streams over time; see :meth:`SpecializedModel.timeline`.

    Costs are times of a frame relative to the oracle's: 1 if the oracle answers every frame. They follow from the times
    that ``fit`` measured and from the models that ran, so that other programs on the machine do not change them.

    Parameters
    ----------
    counts : DataFrame
        A row per stream, interval, phase and model, with the columns ``stream``, ``t`` (start of the interval),
        ``phase``, ``model``, ``frames``, ``checked`` (frames with a true label), ``correct`` and ``cost`` (sum over the
        frames).
    width : float
        Length of an interval, in the unit of ``orderCol``; seconds for timestamps.

    Examples
    --------
    >>> import pandas as pd
    >>> counts = pd.DataFrame(
    ...     [("north", 0.0, "explore", "oracle", 10, 10, 9, 10.0), ("north", 5.0, "specialized", "a 1", 10, 0, 0, 2.0)],
    ...     columns=["stream", "t", "phase", "model", "frames", "checked", "correct", "cost"],
    ... )
    >>> timeline = SpecializationTimeline(counts, width=5.0)
    >>> timeline.to_pandas()["running_cost"].tolist(), round(timeline.speedup, 2), timeline.accuracy
    ([1.0, 0.6], 1.67, 0.9)
    """

    counts: pd.DataFrame
    width: float

    @property
    def speedup(self) -> float:
        """Time of the oracle on every frame relative to the time of the models that ran."""
        return float(self.counts["frames"].sum() / max(self.counts["cost"].sum(), 1e-12))

    @property
    def accuracy(self) -> float:
        """Share of correct answers among the frames with a true label; NaN without one."""
        checked = self.counts["checked"].sum()
        return float(self.counts["correct"].sum() / checked) if checked else float("nan")

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per stream and interval.

        Returns
        -------
        pandas.DataFrame
            Columns ``stream``, ``t``, ``frames``, the most frequent ``phase`` and ``model``, the mean ``cost``, and the
            ``running_cost`` and running ``accuracy`` since the beginning of the stream.
        """
        keys = ["stream", "t"]
        most = self.counts.sort_values("frames", ascending=False, kind="stable").groupby(keys, dropna=False)
        table = most[["phase", "model"]].first().join(most[[*_COUNTS, "cost"]].sum()).reset_index()
        sums = table.groupby("stream", dropna=False)[[*_COUNTS, "cost"]].cumsum()
        table["cost"] = table["cost"] / table["frames"]
        table["running_cost"] = sums["cost"] / sums["frames"]
        table["accuracy"] = sums["correct"] / sums["checked"].where(sums["checked"] > 0)
        return table[["stream", "t", "frames", "phase", "model", "cost", "running_cost", "accuracy"]]

    def explain(self) -> str:
        """Describe each stream in a line: frames, shares of the phases, cost and accuracy."""
        lines, unnamed = [], "null" if len(self.counts["stream"].unique()) > 1 else "all frames"
        for stream, rows in self.counts.groupby("stream", dropna=False, sort=False):
            frames = rows["frames"].sum()
            shares = rows.groupby("phase", sort=False)["frames"].sum() / frames
            line = f"{stream if isinstance(stream, str) else unnamed}: {frames:,} frames, "
            line += ", ".join(f"{share:.0%} {phase}" for phase, share in shares.items())
            line += f"; {rows['cost'].sum() / frames:.2f} of the oracle's time"
            if checked := rows["checked"].sum():
                line += f", accuracy {rows['correct'].sum() / checked:.3f}"
            lines.append(line)
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw phases, models, and running cost and accuracy over time; a column per stream, for the first four."""
        return draw_timeline(self.counts, self.to_pandas(), self.width)


def measure_timeline(frames: DataFrame, policy: Policy, width: float | None) -> SpecializationTimeline:
    """Count the frames of labelled streams by interval, phase and model.

    Parameters
    ----------
    frames : DataFrame
        Columns ``stream``, ``t`` in seconds, ``phase``, ``model`` and ``correct``, a boolean or null.
    policy : Policy
        Measured times.
    width : float, optional
        Length of an interval, in seconds. Default: a 120th of the longest stream.

    Raises
    ------
    InvalidArgumentError
        `width` is not positive, or gives a stream more than 10,000 intervals.
    EmptyInputError
        No frame has an answer and a time.
    """
    if width is not None:
        width = real("width", width, 0, above=True)
    frames = frames.where(F.col("phase").isNotNull() & (F.abs("t") < float("inf")))
    spans = frames.groupBy("stream").agg((F.max("t") - F.min("t")).alias("span"))
    span = spans.agg(F.max("span")).first()
    if span is None or span[0] is None:
        raise EmptyInputError("labelled must have a frame with an answer and a time, got none. Label frames first.")
    length = width or (span[0] / _BINS or 1.0)
    if span[0] / length > _MOST_BINS:
        raise InvalidArgumentError(
            f"width must be at least {span[0] / _MOST_BINS:g}, a {_MOST_BINS:,}th of the longest stream, got {width!r}."
        )
    start = (F.floor(F.col("t") / F.lit(length)) * F.lit(length)).alias("t")
    counts = (
        frames.groupBy("stream", start, "phase", "model")
        .agg(
            F.count("*").alias("frames"),
            F.count("correct").alias("checked"),
            F.coalesce(F.sum(F.col("correct").cast("long")), F.lit(0)).alias("correct"),
        )
        .orderBy("stream", "t", "phase", "model")
        .toPandas()
    )
    counts["cost"] = _costs(counts, policy)
    return SpecializationTimeline(counts, length)


def _costs(counts: pd.DataFrame, policy: Policy) -> list[float]:
    """Return the cost of each row: the time of its frames, relative to the oracle's time of a frame.

    The compact model of a frame that the oracle answered is unknown; the slowest counts.
    """
    shares = {profile.name: profile.seconds / policy.seconds for profile in policy.compacts}
    training = {profile.name: profile.training_seconds / policy.seconds for profile in policy.compacts}
    slowest = max(shares.values())
    known: set[tuple[object, str]] = set()
    costs = []
    columns = (counts[name].tolist() for name in ("stream", "phase", "model", "frames"))
    for stream, phase, model, frames in zip(*columns, strict=True):
        network = model.rsplit(" ", 1)[0]  # an expert's name is that of its compact model with a number
        if phase == REPEAT:
            cost = 0.0
        elif model != ORACLE:
            cost = frames * shares.get(network, slowest)
            if (stream, model) not in known:
                known.add((stream, model))
                cost += training.get(network, 0.0)
        else:
            cost = frames * (1.0 + slowest * (phase in {"trial", "specialized"}))
        costs.append(cost)
    return costs
