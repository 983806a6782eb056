"""The attribution of a score to the parts of an input, as every method returns it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from udfs.attribution import mean_over_places
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from vista_spark.occlusion import Explanation, TensorExplanation

__all__ = ["Attribution", "attribution_of"]

_IMAGE = 2  # axes of a picture's values
_NAMED = 5  # parts that explain() names
_SHOWN = 0.99  # of the values are within the colours' scale
_RANDOM = "RANDOM WEIGHTS: these values say nothing about the input"


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """How much each part of an input supports the score, with its sign. Made by :class:`vista_spark.Attributor`.

    Attributes
    ----------
    values : array of float64
        Positive where a part supports the target, negative where it counts against; NaN where nothing is known. Of the
        input's shape; without its channels where these are covered together: (height, width) of an image.
    method : str
    target : int
        The element of the score, such as a class.
    score : str
        The score in words.
    whole : float
        Score of the whole input.
    baseline : str
        What replaces a part, in words.
    evaluations : int
        Inputs that the network computed.
    seconds : float
    seed : int, optional
        Of random masks.
    measures : mapping of str to float
        How far to trust the values: ``"r2"`` of LIME's linear model on its own samples, ``"left_out_r2"`` on samples
        that it was not fitted to, ``"agreement"`` of two halves of RISE's masks, ``"error"`` of Shapley values,
        ``"gap"`` between the sum of integrated gradients and the score's fall.
    groups : array of int, optional
        Of each element, where groups of elements were replaced together.
    labels : tuple of str
        Of each value, as a text's tokens.
    picture : array of uint8, of shape (height, width, 3), optional
        The image as the network sees it.
    has_random_weights : bool
        Whether the network was drawn at random: the values say nothing then.
    """

    values: NDArray[np.float64]
    method: str
    target: int
    score: str
    whole: float
    baseline: str
    evaluations: int
    seconds: float
    seed: int | None = None
    measures: Mapping[str, float] = field(default_factory=dict)
    groups: NDArray[np.integer] | None = None
    labels: tuple[str, ...] = ()
    picture: NDArray[np.uint8] | None = None
    has_random_weights: bool = False

    def explain(self) -> str:
        """Say in words what was computed, how, and how far to trust it."""
        least, most = np.nanmin(self.values), np.nanmax(self.values)
        lines = [
            *([_RANDOM] if self.has_random_weights else []),
            f"{self.method}: target {self.target} with {self.whole:.4f}; values from {least:.4f} to {most:.4f}",
            *([self.score] if self.score else []),
        ]
        if self.labels:
            order = np.argsort(-np.abs(np.nan_to_num(self.values)), kind="stable")[:_NAMED]
            lines.append("most: " + ", ".join(f"{self.labels[place]} {self.values[place]:+.4f}" for place in order))
        seed = "" if self.seed is None else f"; seed {self.seed}"
        lines.append(f"baseline: {self.baseline}{seed}; {self.evaluations} inputs in {self.seconds:.1f} s")
        lines += [f"{_MEASURES[name]}: {value:.4g}" for name, value in self.measures.items()]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from udfs.driver.figure import picture_and_words  # only who draws pays for matplotlib

        return picture_and_words(self.plot(), self.explain())

    def plot(self) -> Figure:
        """Draw the values: over the image, as a map, or as bars; red supports the target, blue counts against it.

        Raises
        ------
        InvalidArgumentError
            Values of three axes or more.
        """
        from udfs.driver.figure import NotebookFigure  # only who draws pays for matplotlib

        figure = NotebookFigure(figsize=(8.5, 4), layout="constrained")
        title = f"{self.method}: what supports target {self.target} ({self.whole:.3f})"
        if self.has_random_weights:
            figure.suptitle(_RANDOM, color="red", weight="bold")
        if self.values.ndim < _IMAGE:
            axes, places = figure.subplots(), np.arange(self.values.size)
            axes.bar(places, np.atleast_1d(self.values), color=np.where(self.values < 0, "tab:blue", "tab:red"))
            axes.axhline(0, color="grey", linewidth=0.8)
            if self.labels:
                axes.set_xticks(places, self.labels, rotation=60, ha="right")
            axes.set_title(title, fontsize=9)
            return figure
        drawn = figure.subplots(1, 1 if self.picture is None else 2, squeeze=False)[0]
        if self.picture is not None:
            drawn[0].imshow(self.picture)
            drawn[0].set_axis_off()
        figure.colorbar(self.draw(drawn[-1]), ax=drawn[-1], extend="both")
        drawn[-1].set_title(title, fontsize=9)
        return figure

    def draw(self, axes: Axes) -> AxesImage:
        """Draw a map on the caller's axes, over the image in grey where there is one; returns what a colour bar needs.

        The colours' scale is centred on 0 and fits 99 of 100 values; the rest, as single pixels of gradients, have the
        colours of its ends.

        Parameters
        ----------
        axes : matplotlib.axes.Axes

        Raises
        ------
        InvalidArgumentError
            Values that have not two axes.
        """
        if self.values.ndim != _IMAGE:
            raise InvalidArgumentError(
                f"values of {self.values.ndim} axes: draw their planes, as attribution.values[0]"
            )
        if self.picture is not None:
            axes.imshow(self.picture.mean(axis=2), cmap="gray")
        sizes = np.abs(self.values)
        most = float(np.nanquantile(sizes, _SHOWN)) or float(np.nanmax(sizes)) or 1.0
        axes.set_axis_off()
        alpha = 1.0 if self.picture is None else 0.7
        return axes.imshow(self.values, cmap="RdBu_r", vmin=-most, vmax=most, alpha=alpha)


_MEASURES = {
    "r2": "R2 of the linear model on the samples that it was fitted to",
    "left_out_r2": "R2 on samples left out one by one (low: the weights say little; much below the other: take more)",
    "agreement": "correlation of two halves of the masks (low: take more masks)",
    "error": "largest standard error (not small: take more orders)",
    "gap": "sum of the values less the score's fall (not near 0: take more steps)",
}


def attribution_of(explanation: Explanation | TensorExplanation) -> Attribution:
    """Turn an occlusion heat map into an attribution in the input's own size, with its sign.

    Each element has the mean, over the places whose patch covers it, of the score of the whole input minus the score
    with the patch there, as captum's ``Occlusion`` gives it.

    Parameters
    ----------
    explanation : Explanation or TensorExplanation
        Of :func:`vista_spark.explain_image` or :func:`vista_spark.explain_tensor`.

    Returns
    -------
    Attribution
        NaN outside of the region.

    Raises
    ------
    InvalidArgumentError
        The heat map has places that are not computed.

    Examples
    --------
    >>> from vista_spark import explain_image
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> attribution_of(explain_image(picture, "squeezenet1_1", image_size=64, stride=16)).values.shape
    (64, 64)
    """
    effects = explanation.probability - explanation.heat_map.astype(np.float64)
    rows = " x ".join(map(str, explanation.grid.patch))
    return Attribution(
        values=mean_over_places(effects, explanation.grid),
        method="occlusion",
        target=explanation.target,
        score=explanation.score,
        whole=explanation.probability,
        baseline=f"a patch of {rows}",
        evaluations=1 + explanation.heat_map.size,
        seconds=explanation.seconds,
        picture=getattr(explanation, "image", None),
        has_random_weights=explanation.has_random_weights,
    )
