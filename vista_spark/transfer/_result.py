"""Result of a feature transfer: scores by layer, passes over the images, the best model, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.notebook import html_details, html_table, html_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    import plotly.graph_objects as go
    from matplotlib.figure import Figure
    from pyspark.ml import Model, PipelineModel

    from optimizer.transfer import Choice, LogicalPlan
    from vista_spark.transfer._intervals import Interval

__all__ = ["InferencePass", "LayerResult", "TransferResult", "best_of"]


@dataclass(frozen=True, slots=True)
class InferencePass:
    """Pass of the images, or of tensors of an earlier pass, through a part of the network.

    Attributes
    ----------
    layers : tuple of str
        Layers that the pass computed, from the bottom to the top.
    seconds : float
        Wall time, in seconds.
    gflops : float
        GFLOPs per record.
    """

    layers: tuple[str, ...]
    seconds: float
    gflops: float


@dataclass(frozen=True, slots=True)
class LayerResult:
    """Downstream model trained on the structured features and one set of image features, with its score.

    Attributes
    ----------
    name : str
        Name of the layer, or ``"structured"`` and ``"hog"`` for the baselines.
    size : int
        Length of the image features; 0 for the structured features alone.
    score : float
        Score of the evaluator on the held-out rows.
    inference_seconds : float
        Share of the layer in the wall time of its pass, in proportion to the FLOPs between the layer below and this
        layer. The shares of a pass add up to :attr:`InferencePass.seconds`. For the HOG baseline, the time of its pass.
    training_seconds : float
        Wall time of fitting and scoring.
    gflops : float
        Share of the layer in the GFLOPs of its pass, per record.
    model : pyspark.ml.Model
        Downstream model of the assembled vector; use :attr:`TransferResult.best_model` to predict from images.
    inference_pass : int or None
        Index in :attr:`TransferResult.passes` of the pass that computed the features; ``None`` for a baseline.
    interval, lift_interval : tuple of float or None
        95 % bootstrap intervals of the score and of the lift over the structured features alone, from the held-out
        rows. ``None`` if the metric is not Spark ML's f1, accuracy, weighted precision, weighted recall, rmse, mse, mae
        or r2, if rows have weights, or if there are more than 20,000 rows.
    """

    name: str
    size: int
    score: float
    inference_seconds: float
    training_seconds: float
    gflops: float
    model: Model = field(repr=False)
    inference_pass: int | None = None
    interval: Interval | None = None
    lift_interval: Interval | None = None

    @property
    def seconds(self) -> float:
        """Seconds of inference and training."""
        return self.inference_seconds + self.training_seconds


def best_of(results: Sequence[LayerResult], *, larger_is_better: bool) -> LayerResult:
    """Return the result with the best score, the first one in a tie. NaN is the worst score."""
    sign = 1 if larger_is_better else -1
    return max(results, key=lambda result: -math.inf if math.isnan(result.score) else sign * result.score)


@dataclass(frozen=True, slots=True)
class TransferResult:
    """Scores by layer, the best model, and the plan that ran.

    Attributes
    ----------
    layers : tuple of LayerResult
        Results of the layers, from the bottom to the top.
    passes : tuple of InferencePass
        Inference passes in the order of execution. A pass may compute several layers.
    baseline : LayerResult
        Result of the structured features alone, on the same rows.
    hog : LayerResult or None
        Result of the structured features and histograms of oriented gradients, if requested.
    best : LayerResult
        Best result among the layers and the structured features alone. In a tie, the structured features take
        precedence, then the layer nearest to the image.
    best_model : pyspark.ml.PipelineModel
        Pipeline of :attr:`best`, which transforms a DataFrame or stream with the structured features and, if a layer is
        best, the images. It can be saved and loaded. A row that it cannot predict is kept, with nulls and the reason in
        ``transfer_error``.
    metric : str
        Name of the score.
    larger_is_better : bool
        Whether a larger score is better.
    choice : Choice
        Executed plan, its memory plan, and the rejected alternatives; ``print(result.choice.explain())``.
    train_rows, test_rows : int
        Rows of the training set and of the held-out set.
    dropped : mapping of str to int
        Number of rows that were left out, by reason.
    has_structured : bool
        Whether there are structured features; without any, the baseline is a model of the label alone.
    random_weights : bool
        Whether the network's weights were drawn at random: then no layer says anything of the images.
    """

    layers: tuple[LayerResult, ...]
    passes: tuple[InferencePass, ...]
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
    random_weights: bool = False
    has_structured: bool = True

    @property
    def best_score(self) -> float:
        """The score of :attr:`best`, and so of :attr:`best_model`."""
        return self.best.score

    @property
    def best_layer(self) -> str | None:
        """The name of the best layer; ``None`` where no layer beats the structured features alone."""
        return None if self.best is self.baseline else self.best.name

    @property
    def best_params(self) -> dict[str, Any]:
        """The arguments of :class:`vista_spark.FeatureTransfer` that give the best layer alone; empty without one."""
        return {} if self.best_layer is None else {"model": self.plan.model, "layers": [self.best_layer]}

    @property
    def verdict(self) -> str:
        """Verdict in one or two sentences: the best features, the comparison and its significance."""
        alone = f"{self._alone} ({self.metric} {self.baseline.score:.4g})"
        reads = "that of the structured features" if self.has_structured else "a guess by the label's shares"
        if self.best_layer is None:
            layer = best_of(self.layers, larger_is_better=self.larger_is_better)
            text = (
                f"no layer beats {alone}; the nearest is {layer.name} ({layer.score:.4g}). "
                f"best_model is {reads}, and reads no image"
            )
        else:
            verb = "are" if self.has_structured else "is"
            text = f"{self.best_layer} is best: {self.metric} {self.best.score:.4g}, and {alone} {verb} worse"
            if self.best.lift_interval is not None and self.best.lift_interval[0] <= 0:
                low, high = self.best.lift_interval
                text += (
                    f". That may be chance: 95 % of resampled rows held out give a lift between {low:+.3g} and "
                    f"{high:+.3g}"
                )
        if self.hog is not None and best_of((self.best, self.hog), larger_is_better=self.larger_is_better) is self.hog:
            text += f". Histograms of oriented gradients are better still ({self.hog.score:.4g})"
        if self.random_weights:
            text += f". The weights of {self.plan.model} are random: pass weights= before you believe any layer"
        return text

    @property
    def _alone(self) -> str:
        return "the structured features alone" if self.has_structured else "a guess without any feature"

    @property
    def plan(self) -> LogicalPlan:
        """The order of inference and training that was followed."""
        return self.choice.logical

    @property
    def rows(self) -> tuple[LayerResult, ...]:
        """The baselines, then the layers."""
        return (self.baseline, *((self.hog,) if self.hog else ()), *self.layers)

    def to_pandas(self) -> pd.DataFrame:
        """Tabulate the sets of features: baselines first, then the layers from the bottom to the top.

        Returns
        -------
        pandas.DataFrame
            Columns ``features``, ``size``, the metric, ``lift`` (over the structured features alone, in the metric's
            units, positive where better), ``pass`` (from 1; null for a baseline), ``inference_seconds`` and ``gflops``
            (the layer's share of its pass), ``training_seconds``; then ``low`` and ``high``, ``lift_low`` and
            ``lift_high``, the intervals of the score and of the lift (null where there are none).
        """
        import pandas as pd  # only a table needs it

        sign = 1 if self.larger_is_better else -1
        return pd.DataFrame(
            {
                "features": [self._label(row) for row in self.rows],
                "size": [row.size for row in self.rows],
                self.metric: [row.score for row in self.rows],
                "lift": [sign * (row.score - self.baseline.score) for row in self.rows],
                "pass": pd.array([self._pass(row) for row in self.rows], dtype="Int64"),
                "inference_seconds": [row.inference_seconds for row in self.rows],
                "training_seconds": [row.training_seconds for row in self.rows],
                "gflops": [row.gflops for row in self.rows],
                **{
                    name: [_end(interval, end) for interval in intervals]
                    for prefix, intervals in (
                        ("", [row.interval for row in self.rows]),
                        ("lift_", [row.lift_interval for row in self.rows]),
                    )
                    for end, name in enumerate((f"{prefix}low", f"{prefix}high"))
                },
            }
        )

    def plot(self) -> Figure:
        """Draw scores by layer against the baselines, and the seconds that each took.

        Returns
        -------
        matplotlib.figure.Figure
            Shown by a notebook; ``figure.savefig(path)`` elsewhere.
        """
        from udfs.driver.figure import NotebookFigure  # half a second that workers need not spend

        figure = NotebookFigure(figsize=(9, 0.5 * len(self.rows) + 1.8), layout="constrained")
        scores, seconds = figure.subplots(1, 2, width_ratios=(3, 1), sharey=True)
        labels = [self._label(row) for row in self.rows]
        places = list(range(len(labels)))[::-1]
        colours = ["#b0b7bf" if row not in self.layers else "#1f77b4" for row in self.rows]
        colours[self.rows.index(self.best)] = "#d95f02"
        scores.barh(places, [row.score for row in self.rows], color=colours)
        # The numbers are a column beside the axes: next to the bars, the lines of the intervals would cross them.
        for place, row in zip(places, self.rows, strict=True):
            scores.text(1.01, place, f"{row.score:.3f}", va="center", transform=scores.get_yaxis_transform())
        sure = [(place, row) for place, row in zip(places, self.rows, strict=True) if row.interval is not None]
        for place, row in sure:
            scores.plot(row.interval or (), (place, place), color="#343a40", linewidth=1.5, marker="|", markersize=6)
        scores.axvline(self.baseline.score, color="#6c757d", linestyle="--", linewidth=1)
        scores.set_yticks(places, labels)
        scores.margins(x=0.05)
        said = "\nblack lines: 95 % of the scores of resampled rows" if sure else ""
        dashes = "dashes: the structured features alone" if self.has_structured else "dashes: a guess without features"
        scores.set_xlabel(f"{self.metric} on {self.test_rows} rows held out{said}\n{dashes}", fontsize="small")
        seconds.barh(places, [row.inference_seconds for row in self.rows], color="#8fb8de", label="inference")
        lefts = [row.inference_seconds for row in self.rows]
        seconds.barh(places, [row.training_seconds for row in self.rows], left=lefts, color="#f2c48d", label="training")
        seconds.set_xlabel("seconds", fontsize="small")
        seconds.legend(
            frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1, 1), ncols=2, columnspacing=1
        )
        for axes in (scores, seconds):
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(self._title)
        return figure

    def interactive(self) -> go.Figure:
        """Draw scores by layer with plotly; the pointer reads lift, size and seconds.

        Returns
        -------
        plotly.graph_objects.Figure
            Interactive figure of the scores.

        Raises
        ------
        ImportError
            Plotly is not installed: the extra ``plot`` has it.
        """
        from vista_spark.transfer._interactive import interactive_scores

        return interactive_scores(
            self.to_pandas(), self.metric, baseline=self.baseline.score, best=self._label(self.best), title=self._title
        )

    def _repr_html_(self) -> str:
        import pandas as pd  # only a table needs it

        table = self.to_pandas()
        rows = [[None if pd.isna(value) else value for value in row] for row in table.itertuples(index=False)]
        plan = html_details("plan", html_text(self.choice.explain()))
        return html_text(self.verdict) + html_table(list(table.columns), rows) + plan

    @property
    def _title(self) -> str:
        added = "the structured features" if self.has_structured else "a guess without features"
        random = " (random weights)" if self.random_weights else ""
        return f"{self.plan.model}{random}: what each layer adds to {added}"

    def _pass(self, row: LayerResult) -> int | None:
        """Return the number of the pass of a layer, from 1."""
        return None if row.inference_pass is None else row.inference_pass + 1

    def _label(self, row: LayerResult) -> str:
        if row is self.baseline:
            return "structured only" if self.has_structured else "no features"
        return f"{'structured + ' if self.has_structured else ''}{'HOG' if row is self.hog else row.name}"


def _end(interval: Interval | None, end: int) -> float | None:
    return None if interval is None else interval[end]
