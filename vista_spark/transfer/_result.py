"""What a feature transfer found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure
    from pyspark.ml import Model, PipelineModel

    from optimizer.logical import LogicalPlan
    from optimizer.transfer import Choice

__all__ = ["LayerResult", "TransferResult"]


@dataclass(frozen=True, slots=True)
class LayerResult:
    """A downstream model trained on the structured features and one set of image features.

    Attributes
    ----------
    name : str
        The layer, or ``"structured"`` and ``"hog"`` for the baselines.
    size : int
        Length of the image features; 0 for the structured features alone.
    score : float
        Of the evaluator, on the rows held out.
    inference_seconds, training_seconds : float
        Wall time of the pass that made the features, and of fitting and scoring. Layers that one pass delivers share
        its seconds by their FLOPs.
    gflops : float
        Of that pass, a record: of several layers, what this one needs beyond those below it.
    model : pyspark.ml.Model
        Reads the assembled vector; :attr:`TransferResult.best_model` is the one that reads images.
    """

    name: str
    size: int
    score: float
    inference_seconds: float
    training_seconds: float
    gflops: float
    model: Model = field(repr=False)

    @property
    def seconds(self) -> float:
        """Inference and training together."""
        return self.inference_seconds + self.training_seconds


@dataclass(frozen=True, slots=True)
class TransferResult:
    """Scores by layer, the best model, and how they came about.

    Attributes
    ----------
    layers : tuple of LayerResult
        From the bottom to the top.
    baseline : LayerResult
        The structured features alone, on the same rows.
    hog : LayerResult or None
        The structured features and histograms of oriented gradients, if asked for.
    best : LayerResult
        The layer with the best score; of equal ones the one nearest to the image.
    best_model : pyspark.ml.PipelineModel
        Of the best layer: transforms a DataFrame with the structured features and the images; saves and loads.
    metric : str
        What the scores are.
    larger_is_better : bool
    choice : Choice
        The plan that was run, its memory plan, and what it was preferred to; ``print(result.choice.explain())``.
    train_rows, test_rows : int
    dropped : mapping of str to int
        Why rows were left out, and how many.
    """

    layers: tuple[LayerResult, ...]
    baseline: LayerResult
    hog: LayerResult | None
    best: LayerResult
    best_model: PipelineModel
    metric: str
    larger_is_better: bool
    choice: Choice
    train_rows: int
    test_rows: int
    dropped: Mapping[str, int]

    @property
    def plan(self) -> LogicalPlan:
        """The order of inference and training that was followed."""
        return self.choice.logical

    @property
    def rows(self) -> tuple[LayerResult, ...]:
        """The baselines, then the layers."""
        return (self.baseline, *((self.hog,) if self.hog else ()), *self.layers)

    def to_pandas(self) -> pd.DataFrame:
        """One row a set of features: baselines first, then the layers from the bottom to the top.

        Returns
        -------
        pandas.DataFrame
            Columns ``features``, ``size``, the metric, ``lift`` (over the structured features alone, in the metric's
            units, positive where better), ``inference_seconds``, ``training_seconds``, ``gflops``.
        """
        sign = 1 if self.larger_is_better else -1
        return pd.DataFrame(
            {
                "features": [self._label(row) for row in self.rows],
                "size": [row.size for row in self.rows],
                self.metric: [row.score for row in self.rows],
                "lift": [sign * (row.score - self.baseline.score) for row in self.rows],
                "inference_seconds": [row.inference_seconds for row in self.rows],
                "training_seconds": [row.training_seconds for row in self.rows],
                "gflops": [row.gflops for row in self.rows],
            }
        )

    def plot(self) -> Figure:
        """Scores by layer against the baselines, and the seconds that each took.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig(path)`` elsewhere.
        """
        from udfs.driver.figure import NotebookFigure  # noqa: PLC0415 - half a second that workers need not spend

        figure = NotebookFigure(figsize=(8, 0.5 * len(self.rows) + 1.6), layout="constrained")
        scores, seconds = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
        labels = [self._label(row) for row in self.rows]
        places = list(range(len(labels)))[::-1]
        colours = ["#b0b7bf" if row not in self.layers else "#1f77b4" for row in self.rows]
        colours[self.rows.index(self.best)] = "#d95f02"
        bars = scores.barh(places, [row.score for row in self.rows], color=colours)
        scores.bar_label(bars, fmt="%.3f", padding=3)
        scores.axvline(self.baseline.score, color="#6c757d", linestyle="--", linewidth=1)
        scores.set_yticks(places, labels)
        scores.margins(x=0.15)
        scores.set_xlabel(f"{self.metric} on {self.test_rows} rows held out")
        seconds.barh(places, [row.inference_seconds for row in self.rows], color="#8fb8de", label="inference")
        lefts = [row.inference_seconds for row in self.rows]
        seconds.barh(places, [row.training_seconds for row in self.rows], left=lefts, color="#f2c48d", label="training")
        seconds.set_xlabel("seconds")
        seconds.legend(frameon=False, fontsize="small")
        for axes in (scores, seconds):
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(f"{self.plan.model}: what each layer adds to the structured features")
        return figure

    def _label(self, row: LayerResult) -> str:
        if row is self.baseline:
            return "structured only"
        return f"structured + {'HOG' if row is self.hog else row.name}"
