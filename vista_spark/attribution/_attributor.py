"""Attributor: one input of an open network, and the methods that attribute its score to the input's parts."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import UnknownLayerError
from udfs.attribution import (
    GroupedInputs,
    Importance,
    ScoredInputs,
    ablate,
    deletion,
    insertion,
    lime,
    rise,
    shapley,
)
from udfs.driver import validate_arguments
from udfs.handlers import LayerLayout, layer_layout
from vista_spark.attribution._attribution import Attribution
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.attribution import ScoreCurve
    from udfs.handlers import TracedModel
    from udfs.occlusion import SettledScore
    from vista_spark.attribution._attributed_input import AttributedInput, Baseline, Groups

__all__ = ["Attributor"]

# Relative difference of a score between the network that computes gradients and the traced one.
_ROUNDING = 1e-3


@dataclass(frozen=True, kw_only=True)
class Attributor:
    """Input of an open network, and the score that is attributed to the input's parts.

    Made by :func:`vista_spark.image_attributor`, :func:`vista_spark.tensor_attributor` and
    :func:`vista_spark.text_attributor`, which open the network once for all methods, and choose the target and score.

    Every method replaces parts of the input by a `baseline`, as the network reads it: ``"color"``, ``"mean"`` (by
    channel), ``"blur"`` (each element the mean of a window of a quarter of the input), a number, an array of the
    input's shape, or a function from the input to such an array.

    Attributes
    ----------
    inputs : mapping of str to array
        Inputs by name, without the axis of records.
    of : str
        Name of the input whose parts get the attribution.
    target, predicted : int
        Element of the score that is attributed, and the largest one.
    whole : float
        Score of the target for the whole input.
    score : str
        Description of the score.
    """

    target: int
    predicted: int
    whole: float
    score: str
    source: AttributedInput = field(repr=False)
    model: TracedModel = field(repr=False)
    settled: SettledScore = field(repr=False)
    batch_size: int = field(default=32, repr=False)
    labels: tuple[str, ...] = field(default=(), repr=False)
    network: Any = field(default=None, repr=False)
    head: str | int | None = field(default=None, repr=False)
    has_random_weights: bool = field(default=False, repr=False)

    @property
    def inputs(self) -> Mapping[str, NDArray[Any]]:
        """Inputs by name, without the axis of records."""
        return self.source.inputs

    @property
    def of(self) -> str:
        """Name of the input whose parts get the attribution."""
        return self.source.name

    @validate_arguments
    def ablation(self, *, groups: Groups | None = None, baseline: Baseline | None = None) -> Attribution:
        """Replace one group of elements after the other and measure the fall of the score.

        Parameters
        ----------
        groups : {"channels", "elements", "segments"} or array of int, optional
            Elements that are replaced together. ``"segments"`` are superpixels of an image. An array has the number of
            each element's group, below 0 for elements that stay, in a shape that broadcasts to the input's. Default: an
            image's segments, a text's tokens, the channels of any other tensor that has them, and otherwise each
            element, such as a table's columns.
        baseline : str, float, array or callable, optional
            Content of replaced elements; see :class:`Attributor`. Several arrays along a first axis, such as rows of a
            table, give the mean effect. Default ``"color"`` for an image and ``"mean"`` for another tensor.

        Returns
        -------
        Attribution
            Fall of the score, by group.

        Raises
        ------
        InvalidArgumentError
            The groups or the baseline do not fit the input.
        """
        return self._by_groups("ablation", ablate, groups, baseline, draws=True)

    @validate_arguments
    def lime(
        self,
        *,
        groups: Groups | None = None,
        baseline: Baseline | None = None,
        samples: int = 1000,
        kernel_width: float = 0.25,
        ridge: float = 1.0,
        seed: int = 0,
    ) -> Attribution:
        """Fit a linear model of the score to random subsets of the groups (Ribeiro et al., KDD 2016).

        Parameters
        ----------
        groups, baseline
            Groups and content, as for :meth:`ablation`; the baseline is one array.
        samples : int
            Number of subsets. Default 1000.
        kernel_width : float
            Width of the kernel: the narrower, the more subsets close to the whole input count. Default 0.25.
        ridge : float
            Penalty of the regression. Default 1; 0 is plain least squares.
        seed : int
            Seed of the subsets. Default 0.

        Returns
        -------
        Attribution
            Weights of the linear model. ``measures["r2"]`` is its R2 on its own samples, ``measures["left_out_r2"]`` on
            samples left out one by one.

        Raises
        ------
        InvalidArgumentError
            The groups or the baseline do not fit the input, or there are fewer samples than groups.
        """
        method = partial(lime, samples=samples, kernel_width=kernel_width, ridge=ridge, seed=seed)
        return self._by_groups("LIME", method, groups, baseline, seed=seed)

    @validate_arguments
    def shapley(
        self,
        *,
        groups: Groups | None = None,
        baseline: Baseline | None = None,
        orders: int = 20,
        seed: int = 0,
    ) -> Attribution:
        """Average the contribution of each group to the score over random orders (Lundberg and Lee, NIPS 2017).

        Parameters
        ----------
        groups, baseline
            Groups and content, as for :meth:`ablation`; the baseline is one array.
        orders : int
            Number of orders, even; each runs the network as often as there are groups. Default 20. Where the number of
            all subsets is no larger, all are scored and the values are exact.
        seed : int
            Seed of the orders. Default 0.

        Returns
        -------
        Attribution
            Shapley values, whose sum over the groups is the score's fall from the input to the baseline;
            ``measures["error"]`` is the largest standard error.

        Raises
        ------
        InvalidArgumentError
            The groups or the baseline do not fit the input, or the number of orders is odd.
        """
        return self._by_groups(
            "Shapley values", partial(shapley, orders=orders, seed=seed), groups, baseline, seed=seed
        )

    @validate_arguments
    def rise(
        self,
        *,
        baseline: Baseline | None = None,
        masks: int = 4000,
        cells: int = 7,
        probability: float = 0.5,
        seed: int = 0,
    ) -> Attribution:
        """Compare the scores under random soft masks where an element is visible and hidden (Petsiuk, BMVC 2018).

        Parameters
        ----------
        baseline : str, float, array or callable, optional
            Content of hidden elements; see :class:`Attributor`; one array.
        masks : int
            Number of masks, even. Default 4000.
        cells : int
            Cells of a mask along each axis. Default 7.
        probability : float
            Probability that a cell is visible. Default 0.5.
        seed : int
            Seed of the masks. Default 0.

        Returns
        -------
        Attribution
            Mean score weighted by an element's visibility minus that weighted by its absence;
            ``measures["agreement"]`` is the correlation of two halves of the masks.

        Raises
        ------
        InvalidArgumentError
            The input is of integers, the number of masks is odd, or there are more cells than elements.
        """
        started = time.perf_counter()
        self.source.check_floats("rise")
        result = rise(
            self._scored, self.source.baseline(baseline), self.source.spatial, place=self.source.place,
            masks=masks, cells=cells, probability=probability, seed=seed,
        )  # fmt: skip
        return self._attribution("RISE", result, result.values[0], started, baseline=baseline, seed=seed)

    @validate_arguments
    def integrated_gradients(self, *, baseline: Baseline | None = None, steps: int = 50) -> Attribution:
        """Integrate the score's gradients from the baseline to the input (Sundararajan et al., ICML 2017); by captum.

        Parameters
        ----------
        baseline : str, float, array or callable, optional
            Start of the integral; see :class:`Attributor`; one array.
        steps : int
            Steps of the integral. Default 50.

        Returns
        -------
        Attribution
            Integrated gradients, for an image the sum over channels; ``measures["gap"]`` is the part of the score's
            fall that their sum misses.

        Raises
        ------
        InvalidArgumentError
            The network is not of PyTorch, or the input is of integers.
        ImportError
            captum is not installed.
        """
        started, gradients = time.perf_counter(), self._gradients()
        from udfs.attribution.gradients import integrated_gradients

        content = self.source.baseline(baseline)
        result = integrated_gradients(gradients, content, steps=steps, batch_size=self.batch_size)
        self._check_whole(result.whole)
        (values,) = result.values
        if self.source.channels is not None:
            values = values.sum(axis=self.source.channels)
        return self._attribution("integrated gradients", result, values, started, baseline=baseline)

    @validate_arguments
    def grad_cam(self, *, layer: str | None = None, layout: str | None = None) -> Attribution:
        """Weight a layer's feature maps by their mean gradients (Selvaraju et al., ICCV 2017); by captum.

        Parameters
        ----------
        layer : str, optional
            Path of a module that returns a map, with the channels first or last, or tokens in rows and columns, as a
            vision transformer does. Default: the last one with several rows and columns.
        layout : str, optional
            Layout of the output of `layer`: ``channels_first``, ``channels_last``, ``tokens`` or ``tokens+1`` (one
            class token first). By default it is recognised.

        Returns
        -------
        Attribution
            Weighted feature maps, enlarged to the image and without the paper's last ReLU, so that evidence against the
            target is negative.

        Raises
        ------
        InvalidArgumentError
            The network is not of PyTorch, the input is not an image, or the layer returns no feature maps or has an
            ambiguous layout.
        ImportError
            captum is not installed.
        """
        started, gradients = time.perf_counter(), self._gradients()
        if len(self.source.spatial) != 2:
            raise InvalidArgumentError(
                f"the input must be an image for Grad-CAM, got {len(self.source.spatial)} axes; use ablation, lime or "
                "integrated_gradients"
            )
        from udfs.attribution.gradients import grad_cam

        def layout_of(path: str, shape: tuple[int, ...]) -> LayerLayout | None:
            if layout is not None and path == layer:
                return LayerLayout.stated(layout, shape)
            try:
                name = self.model.layer(path)
            except UnknownLayerError:
                return None
            # A module that is called twice may return tensors of two shapes.
            same = self.model.graph[name].output_shape == shape
            return layer_layout(self.model, name, channels_last=False) if same else None

        values, chosen, whole = grad_cam(gradients, layout_of, layer)
        self._check_whole(whole)
        result = Importance((values,), whole, 2)
        return self._attribution("Grad-CAM", result, values, started, text=f"none; gradients at {chosen!r}")

    @validate_arguments
    def deletion(self, attribution: Attribution, *, baseline: Baseline | None = None, steps: int = 100) -> ScoreCurve:
        """Remove the input's elements, the most important first: the score falls fast for a good attribution.

        Petsiuk et al., *RISE*, BMVC 2018, section 4.2.

        Parameters
        ----------
        attribution : Attribution
            Attribution of this input and score, by any method.
        baseline : str, float, array or callable, optional
            Content of removed elements; see :class:`Attributor`; one array.
        steps : int
            Points of the curve. Default 100.

        Returns
        -------
        udfs.attribution.ScoreCurve
            Deletion curve; its ``area`` is the paper's deletion score: lower is better.

        Raises
        ------
        InvalidArgumentError
            The attribution is of another input, target or score.
        """
        baselines = self.source.changing_baselines(baseline)
        return deletion(self._scored, baselines, self._ordered_values(attribution), steps=steps)

    @validate_arguments
    def insertion(self, attribution: Attribution, *, baseline: Baseline | None = None, steps: int = 100) -> ScoreCurve:
        """Restore the input's elements in a baseline, the most important first: the score of a good one rises fast.

        Parameters
        ----------
        attribution, baseline, steps
            Attribution and curve, as for :meth:`deletion`. The default baseline of an image is ``"blur"``, as in the
            paper.

        Returns
        -------
        udfs.attribution.ScoreCurve
            Insertion curve; its ``area`` is the paper's insertion score: higher is better.

        Raises
        ------
        InvalidArgumentError
            See :meth:`deletion`.
        """
        start = "blur" if baseline is None and self.source.picture is not None else baseline
        baselines = self.source.changing_baselines(start)
        return insertion(self._scored, baselines, self._ordered_values(attribution), steps=steps)

    @cached_property
    def _scored(self) -> ScoredInputs:
        return ScoredInputs(self._scores, list(self.inputs.values()), self.batch_size)

    def _scores(self, batches: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Score a batch: a :data:`udfs.attribution.ScoreFunction`."""
        feeds = {name: np.ascontiguousarray(batch) for name, batch in zip(self.inputs, batches, strict=True)}
        outputs = self.model.run(feeds, [self.settled.layer])[self.settled.layer]
        return self.settled(outputs)[:, self.target]

    def _by_groups(
        self,
        name: str,
        method: Callable[[GroupedInputs], Importance],
        groups: Groups | None,
        baseline: Baseline | None,
        *,
        draws: bool = False,
        seed: int | None = None,
    ) -> Attribution:
        """Attribute the score to groups of elements."""
        started, numbers = time.perf_counter(), self.source.group_numbers(groups)
        baselines = self.source.baselines(baseline, draws=draws)
        result = method(GroupedInputs(self._scored, baselines, self.source.groups_by_input(numbers)))
        values = self.source.without_channels(result.values[self.source.place], numbers)
        return self._attribution(name, result, values, started, baseline=baseline, groups=numbers, seed=seed)

    def _gradients(self) -> Any:
        """Return the differentiable score."""
        self.source.check_floats("gradients")
        if self.network is None:
            raise InvalidArgumentError(
                "the network must be of PyTorch for gradients, got another framework's; use ablation, lime or rise"
            )
        from udfs.attribution.gradients import Gradients, score_of_torch

        feeds = {name: array[None] for name, array in self.inputs.items()}
        outputs = self.model.run(feeds, [self.settled.layer])[self.settled.layer]
        form = "" if self.settled.kind == "callable" else getattr(self.settled.form, "__name__", "")
        score = score_of_torch(form, self.target, self.whole, outputs)
        return Gradients(self.network, score, list(self.inputs.values()), self.source.place, self.head)

    def _check_whole(self, whole: float) -> None:
        """Raise ``InvalidArgumentError`` unless gradients are of this score."""
        if abs(whole - self.whole) > _ROUNDING * max(1.0, abs(self.whole)):
            raise InvalidArgumentError(
                f"the network's score must be {self.whole:.6f} where gradients are computed as well, got {whole:.6f}; "
                "put it into inference mode"
            )

    def _ordered_values(self, attribution: Attribution) -> NDArray[np.floating]:
        """Return the values of an attribution of this score."""
        if not isinstance(attribution, Attribution):
            raise InvalidArgumentError(
                "attribution must be an Attribution, such as attributor.ablation() or attribution_of(explanation), got "
                f"{attribution!r}"
            )
        if attribution.target != self.target or attribution.score != self.score:
            raise InvalidArgumentError(
                f"attribution must be of target {self.target} ({self.score}), got one of target {attribution.target} "
                f"({attribution.score})"
            )
        return self.source.broadcast_values(attribution)

    def _attribution(
        self, method: str, result: Importance, values: NDArray[np.float64], started: float, *,
        baseline: Baseline | None = None, groups: NDArray[np.integer] | None = None, seed: int | None = None,
        text: str | None = None,
    ) -> Attribution:  # fmt: skip
        """Return a method's result with its description."""
        return Attribution(
            values=values,
            method=method,
            target=self.target,
            score=self.score,
            whole=self.whole,
            baseline=self.source.baseline_text(baseline) if text is None else text,
            evaluations=result.evaluations,
            seconds=time.perf_counter() - started,
            seed=seed,
            measures=result.measures,
            groups=groups,
            labels=self.labels,
            picture=self.source.picture,
            has_random_weights=self.has_random_weights,
        )
