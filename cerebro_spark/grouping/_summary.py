"""Summary of the results of a search per group: counts, reasons, a comparison with the baseline, and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from optimizer.notebook import ExplainedInNotebooks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

__all__ = ["GroupSummary", "plot_groups", "summarize"]

# Reasons that an explanation lists, and groups that a picture shows.
_REASONS, _SHOWN = 5, 2000


@dataclass(frozen=True, slots=True)
class GroupSummary(ExplainedInNotebooks):
    """Summary of the groups of a run, the global one and those of fewer columns included.

    Parameters
    ----------
    statuses : mapping of str to int
        Number of groups by status: ``"finished"``, ``"failed"`` and ``"skipped"``.
    reasons : mapping of str to int
        Most frequent reasons of groups without a model, numbers in them replaced by ``N``.
    better, equal, worse : int
        Number of groups whose model has a lower, the same or a higher error than the baseline.
    notes : tuple of str
        Notes for people to read, such as why groups do not train together.
    """

    statuses: Mapping[str, int]
    reasons: Mapping[str, int]
    better: int
    equal: int
    worse: int
    notes: tuple[str, ...] = ()

    def explain(self) -> str:
        """Describe the summary.

        Examples
        --------
        >>> print(GroupSummary({"finished": 8, "skipped": 1}, {"one class, N, in all N rows": 1}, 5, 1, 2).explain())
        9 groups: 8 finished, 1 skipped
          1 without a model: one class, N, in all N rows
          the network has a lower error than the majority class or the mean in 5 groups, the same in 1, a higher in 2
        """
        counts = ", ".join(f"{count:,} {status}" for status, count in sorted(self.statuses.items()))
        lines = [f"{sum(self.statuses.values()):,} groups: {counts}"]
        lines += [f"  {count:,} without a model: {reason}" for reason, count in self.reasons.items()]
        lines.append(
            f"  the network has a lower error than the majority class or the mean in {self.better:,} groups, the same "
            f"in {self.equal:,}, a higher in {self.worse:,}"
        )
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


def summarize(groups: DataFrame, notes: tuple[str, ...] = ()) -> GroupSummary:
    """Count the groups of a table as :attr:`GroupedModel.groups` has it, with two Spark jobs."""
    finished = F.col("error").isNotNull() & F.col("baseline_error").isNotNull()
    difference = F.when(finished, F.col("error") - F.col("baseline_error"))
    counts = (
        groups.groupBy("status")
        .agg(
            F.count("*").alias("groups"),
            F.count(F.when(difference < 0, 1)).alias("better"),
            F.count(F.when(difference == 0, 1)).alias("equal"),
            F.count(F.when(difference > 0, 1)).alias("worse"),
        )
        .collect()
    )
    reason = F.regexp_replace("reason", r"\b\d+(\.\d+)?\b", "N")
    reasons = (
        groups.where("reason is not null")
        .groupBy(reason.alias("why"))
        .agg(F.count("*").alias("groups"))
        .orderBy(F.desc("groups"), "why")
        .limit(_REASONS)
        .collect()
    )
    better, equal, worse = (sum(row[name] for row in counts) for name in ("better", "equal", "worse"))
    statuses = {row["status"]: row["groups"] for row in counts}
    return GroupSummary(statuses, {row["why"]: row["groups"] for row in reasons}, better, equal, worse, notes)


def plot_groups(groups: DataFrame) -> Figure:
    """Draw the error of each group's model over that of its baseline; at most 2,000 groups, the largest first."""
    from udfs.driver.figure import NotebookFigure  # only a picture needs matplotlib

    table = (
        groups.where("error is not null and baseline_error is not null")
        .orderBy(F.desc("rows"))
        .limit(_SHOWN)
        .select("rows", "error", "baseline_error")
        .toPandas()
    )
    figure = NotebookFigure(figsize=(5, 4.5), layout="constrained")
    axes = figure.subplots()
    most = float(max(table["error"].max(), table["baseline_error"].max())) if len(table) else 1.0
    axes.plot([0, most], [0, most], color="0.6", linewidth=1)
    sizes = 8 + 60 * table["rows"] / max(table["rows"].max(), 1) if len(table) else 8
    axes.scatter(table["baseline_error"], table["error"], s=sizes, alpha=0.5, linewidths=0)
    axes.set_xlabel("error of the majority class or the mean")
    axes.set_ylabel("error of the group's network")
    axes.set_title("Held-out error of each group (area: rows)")
    return figure
