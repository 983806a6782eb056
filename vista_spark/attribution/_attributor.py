"""A network's score of one input, and what each part of the input adds to it, by several methods."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.attribution import (
    ablate,
    baseline_of,
    deletion,
    group_masks,
    groups_along,
    insertion,
    lime,
    rise,
    shapley,
    superpixels,
)
from udfs.driver import hint_keywords
from vista_spark.attribution._result import Attribution
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.attribution import ScoreCurve
    from udfs.handlers import TracedModel
    from udfs.occlusion import SettledScore

    Baseline = str | float | NDArray[Any] | Callable[[NDArray[Any]], NDArray[Any]]
    Groups = str | NDArray[np.integer]

__all__ = ["Attributor"]

GROUPS = ("channels", "elements", "segments")


@dataclass(frozen=True, kw_only=True)
class Attributor:
    """One input, the network that it is given to, and the score that is attributed to its parts.

    Made by :func:`vista_spark.image_attributor`, :func:`vista_spark.tensor_attributor` and
    :func:`vista_spark.text_attributor`, which open the network once for all methods, and choose the target and score.

    Every method replaces parts of the input by a `baseline`, as the network reads it: ``"color"``, ``"mean"`` (by
    channel), ``"blur"`` (each element the mean of a window of a quarter of the input), a number, an array of the
    input's shape, or a function from the input to such an array.

    Attributes
    ----------
    inputs : mapping of str to array
        By name, without the axis of records.
    of : str
        The input that is attributed to.
    target, predicted : int
        The element of the score that counts, and the largest one.
    whole : float
        The target's score for the whole input.
    score : str
        The score in words.
    """

    inputs: Mapping[str, NDArray[Any]] = field(repr=False)
    of: str
    target: int
    predicted: int
    whole: float
    score: str
    model: TracedModel = field(repr=False)
    settled: SettledScore = field(repr=False)
    channels: int | None = field(default=None, repr=False)
    fill: tuple[float, ...] = field(default=(0.0,), repr=False)
    default: str = field(default="mean", repr=False)
    batch_size: int = field(default=32, repr=False)
    picture: NDArray[np.uint8] | None = field(default=None, repr=False)
    color: str = field(default="", repr=False)
    labels: tuple[str, ...] = field(default=(), repr=False)
    groups: NDArray[np.integer] | None = field(default=None, repr=False)
    beside: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)
    network: Any = field(default=None, repr=False)
    head: str | int | None = field(default=None, repr=False)
    has_random_weights: bool = field(default=False, repr=False)

    @hint_keywords
    def ablation(self, *, groups: Groups | None = None, baseline: Baseline | None = None) -> Attribution:
        """Replace one group of elements after the other, and see how far the score falls.

        Parameters
        ----------
        groups : {"channels", "elements", "segments"} or array of int, optional
            ``"segments"`` are superpixels of an image; an array has the number of each element's group, below 0 for
            elements that stay, in a shape that broadcasts to the input's. By default an image's segments, a text's
            tokens, the channels of any other tensor that has them, and else each element, such as a table's columns.
        baseline : optional
            See :class:`Attributor`; or several arrays along a first axis, such as rows of a table, over which the
            effect is the mean. By default an image's ``"color"``, and the ``"mean"`` of another tensor.

        Returns
        -------
        Attribution
            The fall of the score is what the group adds to it.

        Raises
        ------
        InvalidArgumentError
            Groups or a baseline that do not do.
        """
        started, numbers = time.perf_counter(), self._numbers(groups)
        drawn = self._draws(baseline)
        ablated = ablate(
            self._scores, list(self.inputs.values()), self._beside(drawn), self._masks(numbers),
            batch_size=self.batch_size,
        )  # fmt: skip
        return self._made(
            "ablation", ablated.values[self._place], started, ablated.evaluations,
            baseline=self._words(baseline), groups=numbers,
        )  # fmt: skip

    @hint_keywords
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
            As for :meth:`ablation`; the baseline is one array.
        samples : int
            Subsets. Default 1000.
        kernel_width : float
            Default 0.25: subsets near the whole input count more, the narrower the more so.
        ridge : float
            Penalty of the regression. Default 1; 0 is plain least squares.
        seed : int

        Returns
        -------
        Attribution
            The weights; ``measures["r2"]`` is the linear model's R2 on its own samples, ``measures["left_out_r2"]`` on
            samples left out one by one.

        Raises
        ------
        InvalidArgumentError
            Groups or a baseline that do not do; fewer samples than groups, or another bad number.
        """
        started, numbers = time.perf_counter(), self._numbers(groups)
        surrogate = lime(
            self._scores, list(self.inputs.values()), self._beside(self._one(baseline)), self._groups_of_all(numbers),
            samples=samples, kernel_width=kernel_width, ridge=ridge, seed=seed, batch_size=self.batch_size,
        )  # fmt: skip
        return self._made(
            "LIME", surrogate.values[self._place], started, surrogate.evaluations,
            baseline=self._words(baseline), groups=numbers, seed=seed,
            measures={"r2": surrogate.r2, "left_out_r2": surrogate.left_out_r2},
        )  # fmt: skip

    @hint_keywords
    def shapley(
        self,
        *,
        groups: Groups | None = None,
        baseline: Baseline | None = None,
        orders: int = 20,
        seed: int = 0,
    ) -> Attribution:
        """Average what each group adds to the score over random orders of the groups (Lundberg and Lee, NIPS 2017).

        Parameters
        ----------
        groups, baseline
            As for :meth:`ablation`; the baseline is one array.
        orders : int
            Even. Default 20: each takes as many runs as there are groups. Few groups have few subsets; all of them are
            taken then, and the values are exact.
        seed : int

        Returns
        -------
        Attribution
            The groups' values add up to the score's fall from the input to the baseline; ``measures["error"]`` is the
            largest standard error.

        Raises
        ------
        InvalidArgumentError
            Groups or a baseline that do not do; an odd number of orders.
        """
        started, numbers = time.perf_counter(), self._numbers(groups)
        result = shapley(
            self._scores, list(self.inputs.values()), self._beside(self._one(baseline)), self._groups_of_all(numbers),
            orders=orders, seed=seed, batch_size=self.batch_size,
        )  # fmt: skip
        return self._made(
            "Shapley values", result.values[self._place], started, result.evaluations,
            baseline=self._words(baseline), groups=numbers, seed=seed, measures={"error": result.error},
        )  # fmt: skip

    @hint_keywords
    def rise(
        self,
        *,
        baseline: Baseline | None = None,
        masks: int = 4000,
        cells: int = 7,
        probability: float = 0.5,
        seed: int = 0,
    ) -> Attribution:
        """Compare the scores under random soft masks where an element is shown and where not (Petsiuk, BMVC 2018).

        Parameters
        ----------
        baseline : optional
            See :class:`Attributor`; one array.
        masks : int
            Even. Default 4000.
        cells : int
            Of a mask, along each axis. Default 7.
        probability : float
            That a cell is shown. Default 0.5.
        seed : int

        Returns
        -------
        Attribution
            See :class:`udfs.attribution.Rise`; ``measures["agreement"]`` is the correlation of two halves of the masks.

        Raises
        ------
        InvalidArgumentError
            The input is of whole numbers; an odd number of masks, more cells than elements, or another bad number.
        """
        started = time.perf_counter()
        self._check_real("rise")
        result = rise(
            self._scores, list(self.inputs.values()), self._one(baseline), self._spatial, of=self._place,
            masks=masks, cells=cells, probability=probability, seed=seed, batch_size=self.batch_size,
        )  # fmt: skip
        return self._made(
            "RISE", result.values, started, result.evaluations,
            baseline=self._words(baseline), seed=seed, measures={"agreement": result.agreement},
        )  # fmt: skip

    @hint_keywords
    def integrated_gradients(self, *, baseline: Baseline | None = None, steps: int = 50) -> Attribution:
        """Integrate the score's gradients from the baseline to the input (Sundararajan et al., ICML 2017); by captum.

        Parameters
        ----------
        baseline : optional
            See :class:`Attributor`; one array.
        steps : int
            Default 50.

        Returns
        -------
        Attribution
            An image's sum over channels; ``measures["gap"]`` is what the sum of all misses of the score's fall.

        Raises
        ------
        InvalidArgumentError
            The network is not of PyTorch, or the input of whole numbers.
        ImportError
            captum is not installed.
        """
        started, gradients = time.perf_counter(), self._gradients()
        from udfs.attribution.gradients import integrated_gradients  # needs torch

        made = integrated_gradients(gradients, self._one(baseline), steps=steps, batch_size=self.batch_size)
        self._check_whole(made.whole)
        values = made.values if self.channels is None else made.values.sum(axis=self.channels)
        return self._made(
            "integrated gradients", values, started, made.evaluations,
            baseline=self._words(baseline), measures={"gap": made.gap},
        )  # fmt: skip

    @hint_keywords
    def grad_cam(self, *, layer: str | None = None) -> Attribution:
        """Weigh a layer's feature maps by their mean gradients (Selvaraju et al., ICCV 2017); by captum.

        Parameters
        ----------
        layer : str, optional
            A module's path; by default the last one that gives maps of several rows and columns.

        Returns
        -------
        Attribution
            Enlarged to the image, without the paper's last ReLU: what counts against the target is negative.

        Raises
        ------
        InvalidArgumentError
            The network is not of PyTorch, the input is no image, or the layer gives no feature maps.
        ImportError
            captum is not installed.
        """
        started, gradients = time.perf_counter(), self._gradients()
        if len(self._spatial) != 2:  # height and width
            raise InvalidArgumentError("Grad-CAM is of images: take ablation, lime or integrated_gradients")
        from udfs.attribution.gradients import grad_cam  # needs torch

        values, chosen, whole = grad_cam(gradients, layer)
        self._check_whole(whole)
        return self._made("Grad-CAM", values, started, 2, baseline=f"none; gradients at {chosen!r}")

    @hint_keywords
    def deletion(self, attribution: Attribution, *, baseline: Baseline | None = None, steps: int = 100) -> ScoreCurve:
        """Take the input's elements away, the most important first: a good attribution's score falls fast.

        Petsiuk et al., *RISE*, BMVC 2018, section 4.2.

        Parameters
        ----------
        attribution : Attribution
            Of this input and score, by any method.
        baseline : optional
            See :class:`Attributor`; one array.
        steps : int
            Points of the curve. Default 100.

        Returns
        -------
        udfs.attribution.ScoreCurve
            Its ``area`` is the paper's deletion score: lower is better.

        Raises
        ------
        InvalidArgumentError
            The attribution is of another input, target or score.
        """
        return deletion(
            self._scores, list(self.inputs.values()), self._changing(self._one(baseline)),
            self._ordering(attribution), steps=steps, batch_size=self.batch_size,
        )  # fmt: skip

    @hint_keywords
    def insertion(self, attribution: Attribution, *, baseline: Baseline | None = None, steps: int = 100) -> ScoreCurve:
        """Put the input's elements into a baseline, the most important first: a good attribution's score rises fast.

        Parameters
        ----------
        attribution, baseline, steps
            As for :meth:`deletion`; by default an image's baseline is its ``"blur"``, as in the paper.

        Returns
        -------
        udfs.attribution.ScoreCurve
            Its ``area`` is the paper's insertion score: higher is better.

        Raises
        ------
        InvalidArgumentError
            As for :meth:`deletion`.
        """
        start = "blur" if baseline is None and self.picture is not None else baseline
        return insertion(
            self._scores, list(self.inputs.values()), self._changing(self._one(start)),
            self._ordering(attribution), steps=steps, batch_size=self.batch_size,
        )  # fmt: skip

    # --- the input

    @property
    def _input(self) -> NDArray[Any]:
        return self.inputs[self.of]

    @property
    def _place(self) -> int:
        return list(self.inputs).index(self.of)

    @property
    def _spatial(self) -> tuple[int, ...]:
        """Axes that are not channels."""
        return tuple(axis for axis in range(self._input.ndim) if axis != self.channels)

    def _scores(self, batches: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
        """Score a batch: a :data:`udfs.attribution.ScoreFunction`."""
        feeds = {name: np.ascontiguousarray(batch) for name, batch in zip(self.inputs, batches, strict=True)}
        outputs = self.model.run(feeds, [self.settled.layer])[self.settled.layer]
        return self.settled(outputs)[:, self.target]

    # --- groups

    def _numbers(self, groups: Groups | None) -> NDArray[np.integer]:
        """Number the group of each element, in a shape that broadcasts to the input's."""
        if groups is None and self.groups is not None:
            return self.groups
        if groups is None:
            groups = "segments" if self.picture is not None else "elements" if self.channels is None else "channels"
        if isinstance(groups, str):
            return self._named(groups)
        numbers = np.asarray(groups)
        if self.channels is not None and numbers.ndim == self._input.ndim - 1:
            numbers = np.expand_dims(numbers, self.channels)
        try:
            np.broadcast_to(numbers, self._input.shape)
        except ValueError:
            raise InvalidArgumentError(
                f"groups of shape {np.shape(groups)} for an input of shape {self._input.shape}: one number per element"
            ) from None
        return numbers

    def _named(self, groups: str) -> NDArray[np.integer]:
        if groups == "segments" and self.picture is not None and self.channels is not None:
            return np.expand_dims(superpixels(self.picture), self.channels)
        if groups == "channels" and self.channels is not None:
            return groups_along(self._input.shape, self.channels)
        if groups == "elements":
            return groups_along(self._input.shape)
        reason = f"one of {', '.join(GROUPS)}, or an array of numbers"
        if groups in GROUPS:
            reason = "this input has none"
        raise InvalidArgumentError(f"groups={groups!r}: {reason}")

    def _groups_of_all(self, numbers: NDArray[np.integer]) -> list[NDArray[np.integer]]:
        """Give every input groups; those beside are replaced with this one's where the kind of input asks for it."""
        together = dict.fromkeys((self.of, *self.beside), numbers)
        return [together.get(name, np.full(array.shape, -1)) for name, array in self.inputs.items()]

    def _masks(self, numbers: NDArray[np.integer]) -> list[tuple[NDArray[np.bool_] | None, ...]]:
        return group_masks(self._groups_of_all(numbers))

    # --- baselines

    def _one(self, baseline: Baseline | None) -> NDArray[Any]:
        """Make what replaces a part."""
        if baseline is None and self.of in self.beside:
            return self.beside[self.of]
        if self.channels is None and (baseline is None or (isinstance(baseline, str) and baseline == "mean")):
            raise InvalidArgumentError(
                "baseline: a row of columns has no mean of its own; give the columns' means over your data, as "
                "baseline=rows.mean(axis=0), or for ablation some rows of it"
            )
        chosen = self.default if baseline is None else baseline
        if self.picture is None and isinstance(chosen, str) and chosen == "color":
            raise InvalidArgumentError('baseline="color" is for images: give a number, an array, "mean" or "blur"')
        return baseline_of(chosen, self._input, self._spatial, fill=self.fill)

    def _draws(self, baseline: Baseline | None) -> NDArray[Any]:
        """Make what replaces a part, once or several times."""
        if isinstance(baseline, np.ndarray) and baseline.ndim == self._input.ndim + 1 and len(baseline):
            return np.stack([self._one(row) for row in baseline])
        return self._one(baseline)

    def _beside(self, own: NDArray[Any]) -> list[NDArray[Any]]:
        """Add the baselines of the other inputs, which stay unless they are replaced together with this one."""
        return [own if name == self.of else self.beside.get(name, array) for name, array in self.inputs.items()]

    def _changing(self, own: NDArray[Any]) -> list[NDArray[Any] | None]:
        """Leave out the inputs that stay."""
        return [own if name == self.of else self.beside.get(name) for name in self.inputs]

    def _words(self, baseline: Baseline | None) -> str:
        chosen = self.default if baseline is None else baseline
        if callable(chosen):
            return f"the function {getattr(chosen, '__name__', type(chosen).__name__)}"
        if isinstance(chosen, np.ndarray):
            return f"an array of shape {chosen.shape}"
        named = {
            "color": f"the colour {self.color} (red, green, blue)",
            "mean": "the mean of each channel",
            "blur": "the blurred input",
        }
        return named.get(chosen, chosen) if isinstance(chosen, str) else f"{chosen} everywhere"

    # --- gradients and results

    def _gradients(self) -> Any:
        """Make the score differentiable."""
        self._check_real("gradients")
        if self.network is None:
            raise InvalidArgumentError("gradients are taken of networks of PyTorch: take ablation, lime or rise")
        from udfs.attribution.gradients import Gradients, score_of_torch  # needs torch

        feeds = {name: array[None] for name, array in self.inputs.items()}
        outputs = self.model.run(feeds, [self.settled.layer])[self.settled.layer]
        form = getattr(self.settled.form, "__name__", "")
        kind = "" if self.settled.kind == "callable" else form
        score = score_of_torch(kind, self.target, self.whole, outputs)
        return Gradients(self.network, score, list(self.inputs.values()), self._place, self.head)

    def _check_whole(self, whole: float) -> None:
        """Refuse gradients of another score than this one."""
        if abs(whole - self.whole) > 1e-3 * max(1.0, abs(self.whole)):
            raise InvalidArgumentError(
                f"the network gives {whole:.6f} where gradients are taken, and {self.whole:.6f} elsewhere: it is not "
                "the same function in both; is it in inference mode?"
            )

    def _check_real(self, name: str) -> None:
        if not np.issubdtype(self._input.dtype, np.floating):
            raise InvalidArgumentError(
                f"{name}: input {self.of!r} is of {self._input.dtype}, of which there is no half; take ablation or lime"
            )

    def _ordering(self, attribution: Attribution) -> NDArray[np.floating]:
        """Give an attribution's values a shape that broadcasts to the input's."""
        if not isinstance(attribution, Attribution):
            raise InvalidArgumentError(
                f"attribution={attribution!r}: an Attribution, as attributor.ablation() or attribution_of(explanation)"
            )
        if attribution.target != self.target or attribution.score != self.score:
            raise InvalidArgumentError(
                f"an attribution of target {attribution.target} ({attribution.score}), and this is of {self.target} "
                f"({self.score}): a curve is of one score"
            )
        shape, values = self._input.shape, attribution.values
        if self.channels is not None and values.shape == tuple(shape[axis] for axis in self._spatial):
            return np.expand_dims(values, self.channels)
        if values.shape != shape:
            raise InvalidArgumentError(f"an attribution of shape {values.shape} for an input of shape {shape}")
        return values

    def _made(
        self,
        method: str,
        values: NDArray[np.float64],
        started: float,
        evaluations: int,
        *,
        baseline: str,
        groups: NDArray[np.integer] | None = None,
        seed: int | None = None,
        measures: Mapping[str, float] | None = None,
    ) -> Attribution:
        """Describe what was computed."""
        together = groups is not None and self.channels is not None and groups.shape[self.channels] == 1
        if together and values.ndim == self._input.ndim:
            values = np.take(values, [0], self.channels).squeeze(self.channels)
        return Attribution(
            values=values,
            method=method,
            target=self.target,
            score=self.score,
            whole=self.whole,
            baseline=baseline,
            evaluations=evaluations,
            seconds=time.perf_counter() - started,
            seed=seed,
            measures=measures or {},
            groups=groups,
            labels=self.labels,
            picture=self.picture,
            has_random_weights=self.has_random_weights,
        )
