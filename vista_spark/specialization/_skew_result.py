"""``ClassSkew``: numbers of labels that make up shares of windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ClassSkew"]

_MINUTE = 60
_TYPICAL = (0.5, 0.9)


@dataclass(frozen=True, slots=True)
class ClassSkew:
    """Class skew of a labelled stream, as :func:`class_skew` measures it.

    Parameters
    ----------
    counts : mapping of (float, float) to mapping of int to int
        By window length in seconds and share: the number of windows, by the fewest labels that make up the share of a
        window's rows.
    left_out : mapping of float to int, optional
        By window length: the number of windows whose rows span less than half of them, which do not count.

    Examples
    --------
    >>> skew = ClassSkew({(10.0, 0.9): {1: 3, 4: 1}})
    >>> skew.fraction(window=10, share=0.9, labels=3)
    0.75
    >>> skew.labels(window=10, share=0.9, fraction=0.9)
    4
    """

    counts: Mapping[tuple[float, float], Mapping[int, int]]
    left_out: Mapping[float, int] = field(default_factory=dict)

    def windows(self, window: float) -> int:
        """Return the number of windows of a measured length, in seconds.

        Raises
        ------
        InvalidArgumentError
            The length was not measured.
        """
        totals = [sum(counts.values()) for (length, _), counts in self.counts.items() if length == window]
        if not totals:
            known = ", ".join(f"{length:g}" for length in dict.fromkeys(length for length, _ in self.counts))
            raise InvalidArgumentError(f"window must be a measured length, {known}, got {window}.")
        return max(totals)

    def fraction(self, window: float, share: float, labels: int) -> float:
        """Return the fraction of windows in which at most so many labels make up a share; NaN without a window.

        Parameters
        ----------
        window : float
            Length of the windows, in seconds.
        share : float
            Share of a window's rows.
        labels : int
            Number of labels.

        Raises
        ------
        InvalidArgumentError
            The pair of window and share was not measured.
        """
        counts = self._counts_of(window, share)
        total = sum(counts.values())
        return sum(number for each, number in counts.items() if each <= labels) / total if total else float("nan")

    def labels(self, window: float, share: float, fraction: float = 0.9) -> int | None:
        """Return the fewest labels that make up a share in a fraction of the windows; ``None`` without a window.

        Parameters
        ----------
        window : float
            Length of the windows, in seconds.
        share : float
            Share of a window's rows.
        fraction : float
            Fraction of the windows, at most 1. Default 0.9.

        Raises
        ------
        InvalidArgumentError
            The pair of window and share was not measured.
        """
        numbers = sorted(self._counts_of(window, share))
        return next((each for each in numbers if self.fraction(window, share, each) >= fraction), None)

    def to_pandas(self) -> pd.DataFrame:
        """Return the cumulative distributions.

        Returns
        -------
        pandas.DataFrame
            Columns ``window`` in seconds, ``share``, ``labels``, and ``fraction`` of windows in which at most so many
            labels make up the share; a row per number of labels that some window has.
        """
        rows = [
            (window, share, labels, self.fraction(window, share, labels))
            for (window, share), counts in self.counts.items()
            for labels in sorted(counts)
        ]
        return pd.DataFrame(rows, columns=["window", "share", "labels", "fraction"])

    def explain(self) -> str:
        """Describe the skew, a line per length of windows and share."""
        lines = []
        for window in dict.fromkeys(window for window, _ in self.counts):
            count, left_out = self.windows(window), self.left_out.get(window, 0)
            note = f", {left_out:,} left out because their rows span less than half of them" if left_out else ""
            lines.append(f"windows of {_duration(window)}: {count:,}{note}")
            for share in (share for length, share in self.counts if length == window and count):
                half, most = (self.labels(window, share, fraction) for fraction in _TYPICAL)
                lines.append(f"  labels for {share:.0%} of the rows: {half} in half of the windows, {most} in 90 %")
        return "\n".join(lines)

    def plot(self) -> Figure:
        """Draw the cumulative distributions, a panel per length of windows, as in Figure 5.1 of Shen (2018)."""
        from udfs.driver.figure import NotebookFigure  # half a second that workers need not spend

        windows = list(dict.fromkeys(window for window, _ in self.counts))
        figure = NotebookFigure(figsize=(1.8 + 3.1 * len(windows), 3.4), layout="constrained")
        axes = figure.subplots(1, len(windows), sharey=True, squeeze=False)[0]
        for each, window in zip(axes, windows, strict=True):
            self._draw(each, window)
        axes[0].set_ylabel("fraction of windows")
        lines = {str(line.get_label()): line for each in axes for line in each.lines}
        if lines:
            figure.legend(lines.values(), lines, title="share of rows", frameon=False, loc="outside right upper")
        return figure

    def _draw(self, axes: Axes, window: float) -> None:
        from matplotlib.ticker import MaxNLocator  # as above

        axes.spines[["top", "right"]].set_visible(False)
        axes.set(title=f"{self.windows(window):,} windows of {_duration(window)}", xlabel="labels", ylim=(0, 1.03))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        most = max(max(counts, default=1) for (length, _), counts in self.counts.items() if length == window)
        for (length, share), counts in self.counts.items():
            if length == window and counts:
                numbers = [0, *sorted(counts), most + 1]
                fractions = [self.fraction(window, share, number) for number in numbers]
                axes.step(numbers, fractions, where="post", label=f"{share:.0%}")

    def _counts_of(self, window: float, share: float) -> Mapping[int, int]:
        if (window, share) not in self.counts:
            known = ", ".join(f"({length:g}, {part:g})" for length, part in self.counts)
            raise InvalidArgumentError(f"window and share must be a measured pair, {known}, got ({window}, {share}).")
        return self.counts[window, share]


def _duration(seconds: float) -> str:
    """Describe a length of time: ``"10 s"``, ``"3 min"``."""
    return f"{seconds / _MINUTE:g} min" if seconds >= _MINUTE and seconds % _MINUTE == 0 else f"{seconds:g} s"
