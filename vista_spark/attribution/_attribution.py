"""Attribution of a score to the parts of an input: the result of every method."""

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
_SHOWN = 0.99  # share of the values within the colour scale
_UNIT = "support of the target"
_LABEL_INCHES, _MOST_INCHES = 0.19, 30.0  # width of a label on its side, and of a figure
_RANDOM = "RANDOM WEIGHTS: these values say nothing about the input"


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """Support of each part of an input for the score, with its sign. Returned by :class:`vista_spark.Attributor`.

    Attributes
    ----------
    values : array of float64
        Positive where a part supports the target, negative where it counts against it, NaN where it is unknown. The
        shape is the input's, without channels where these are covered together: (height, width) of an image.
    method : str
        Name of the method.
    target : int
        Element of the score, such as a class.
    score : str
        Description of the score.
    whole : float
        Score of the whole input.
    baseline : str
        Description of the content that replaces a part.
    evaluations : int
        Number of inputs that the network computed.
    seconds : float
        Time of the computation.
    seed : int, optional
        Seed of random masks, subsets or orders.
    measures : mapping of str to float
        Reliability of the values: ``"r2"`` of LIME's linear model on its own samples, ``"left_out_r2"`` on samples that
        it was not fitted to, ``"agreement"`` of two halves of RISE's masks, ``"error"`` of Shapley values, ``"gap"``
        between the sum of integrated gradients and the score's fall.
    groups : array of int, optional
        Number of each element's group, where groups of elements were replaced together.
    labels : tuple of str
        Label of each value, such as a text's tokens.
    picture : array of uint8, of shape (height, width, 3), optional
        Image as the network reads it.
    has_random_weights : bool
        Whether the network has random weights, which make the values meaningless.
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
        """Describe the target, the method and the reliability of the values."""
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
            The values have three axes or more.
        """
        from udfs.driver.figure import NotebookFigure  # only who draws pays for matplotlib

        width = min(max(8.5, _LABEL_INCHES * len(self.labels)), _MOST_INCHES)
        figure = NotebookFigure(figsize=(width, 4), layout="constrained")
        title = f"{self.method}: what supports target {self.target} ({self.whole:.3f})"
        if self.has_random_weights:
            figure.suptitle(_RANDOM, color="red", weight="bold")
        if self.values.ndim < _IMAGE:
            axes, places = figure.subplots(), np.arange(self.values.size)
            axes.bar(places, np.atleast_1d(self.values), color=np.where(self.values < 0, "tab:blue", "tab:red"))
            axes.axhline(0, color="grey", linewidth=0.8)
            if self.labels:
                step = -(-len(self.labels) * _LABEL_INCHES // _MOST_INCHES)
                axes.set_xticks(places[:: int(step)], self.labels[:: int(step)], rotation=90)
            axes.set_ylabel(_UNIT)
            axes.set_title(title, fontsize=9)
            return figure
        panels = figure.subplots(1, 1 if self.picture is None else 2, squeeze=False)[0]
        if self.picture is not None:
            panels[0].imshow(self.picture)
            panels[0].set_axis_off()
        bar = figure.colorbar(self.draw(panels[-1]), ax=panels[-1], extend="both", format="{x:.6g}")
        bar.set_label(_UNIT)
        panels[-1].set_title(title, fontsize=9)
        return figure

    def draw(self, axes: Axes) -> AxesImage:
        """Draw a map on the caller's axes, over the image in grey where there is one.

        The colour scale is centred on 0 and fits 99 % of the values; the others, such as single pixels of gradients,
        have the colours of its ends.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
            Axes to draw on.

        Returns
        -------
        matplotlib.image.AxesImage
            Drawn map, for a colour bar.

        Raises
        ------
        InvalidArgumentError
            The values do not have two axes.
        """
        if self.values.ndim != _IMAGE:
            raise InvalidArgumentError(
                f"values must have 2 axes to be drawn, got {self.values.ndim} axes; draw planes such as "
                "attribution.values[0]"
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
    "left_out_r2": "R2 on samples left out one by one (low: the weights say little; much below the other: use more)",
    "agreement": "correlation of two halves of the masks (low: use more masks)",
    "error": "largest standard error (not small: use more orders)",
    "gap": "sum of the values minus the score's fall (not near 0: use more steps)",
}


def attribution_of(explanation: Explanation | TensorExplanation) -> Attribution:
    """Convert an occlusion heat map to an attribution in the input's own size, with its sign.

    Each element has the mean, over the places whose patch covers it, of the score of the whole input minus the score
    with the patch there, as captum's ``Occlusion`` computes it.

    Parameters
    ----------
    explanation : Explanation or TensorExplanation
        Result of :func:`vista_spark.explain_image` or :func:`vista_spark.explain_tensor`.

    Returns
    -------
    Attribution
        Values by element; NaN outside of the region.

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
