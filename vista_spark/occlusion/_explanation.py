"""Explanation of one image: its heat map, the image, and the coordinates of the photograph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from udfs.images import decode
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._heat_map_figure import PALETTE, draw_over_image, plot_image
from vista_spark.occlusion._records import Recorded, fields_of_row
from vista_spark.occlusion._validation import as_image, read_integer

if TYPE_CHECKING:
    import os

    import plotly.graph_objects as go
    import torch
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from udfs.images import PictureGeometry, Preprocessing, Region
    from vista_spark.roster import ClassNames

__all__ = ["Explanation", "ImageSource", "shown_image"]

ImageSource: TypeAlias = "bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor"
"""Image as its encoded bytes, its path, or the array or tensor that the network reads."""

# Grey level of the picture in place of a missing image.
_GREY = 128


@dataclass(frozen=True)
class Explanation(Recorded):
    """Heat map of an image: dependence of a score on each part. Made by :func:`vista_spark.explain_image`.

    Attributes
    ----------
    heat_map : array of float32, of shape ``grid.shape``
        Score of the target with the patch at each place; NaN where it is not computed.
    grid : OcclusionGrid
        Places of the patch.
    target, predicted : int
        Element of the score that is mapped, and the largest one for the whole image.
    probability : float
        Score of the target for the whole image; a probability where `score` is one.
    mode : str
        Mode of the computation.
    theoretical_speedup : float
        Speed-up of a place over the naive mode, by FLOPs.
    seconds : float
        Time of the computation; for several targets, of the one pass.
    score : str
        Description of the score, such as ``"probability: softmax over the 1000 outputs of 'classifier.1'"``.
    verified : int
        Number of places that were computed again with the original network.
    difference : float
        Largest difference at these places.
    notes : tuple of str
        Remarks on the computation.
    top : tuple of (int, float)
        Five largest elements of the score for the whole image, and their scores.
    class_names : tuple of str
        Names of the score's elements; empty where they are unknown.
    likeness : float or None
        Estimated SSIM of an approximate heat map with the exact one; ``None`` where there are too few places.
    computed : int or None
        Number of computed places; the others are estimated from them.
    model : str
        Name of the network.
    has_random_weights : bool
        Whether the network has random weights, which make the heat map meaningless.
    image : array of uint8, of shape (height, width, 3)
        Image as the network reads it.
    geometry : PictureGeometry or None
        Coordinates of the photograph, where the request used them.
    """

    image: NDArray[np.uint8]
    geometry: PictureGeometry | None = field(default=None, kw_only=True)

    def _located(self) -> dict[str, Any]:
        """Return the rows and columns of the photograph that the patch covers, by row and column of the heat map."""
        if self.geometry is None:
            return {}
        rows, columns = self.heat_map.shape
        return {
            "photograph": {
                "size": self.geometry.size,
                "rows": [self.covered(row, 0)[0] for row in range(rows)],
                "columns": [self.covered(0, column)[1] for column in range(columns)],
            }
        }

    def covered(self, row: int, column: int) -> Region:
        """Return the rows and columns that the patch covers at a place, in the coordinates of the request.

        Parameters
        ----------
        row, column : int
            Place in the heat map.

        Returns
        -------
        tuple of two pairs of int
            Half-open ranges of the photograph's pixels, or of the network's input.

        Raises
        ------
        InvalidArgumentError
            The heat map has no such row or column.
        """
        index = [read_integer(name, at, 0) for name, at in (("row", row), ("column", column))]
        for name, at, count in zip(("row", "column"), index, self.grid.shape, strict=True):
            if at >= count:
                raise InvalidArgumentError(f"{name} must be below {count}, the extent of the heat map, got {at}")
        starts = (int(self.grid.starts(axis)[at]) for axis, at in enumerate(index))
        rows, columns = ((start, start + extent) for start, extent in zip(starts, self.grid.patch, strict=True))
        return (rows, columns) if self.geometry is None else self.geometry.to_photograph((rows, columns))

    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the image and its heat map: red where the prediction depends on the covered part.

        Colours are centred on the score of the whole image, and their limits fit the heat map; an arrow at an end of
        the colour bar marks values beyond the limits. A place that changes nothing has no colour.

        Parameters
        ----------
        palette : str
            Colour map of matplotlib, with low values first. Default ``"RdBu"``. ``"jet_r"`` has the colours and limits
            of Krypton's pictures: from 0.75 to 1.25 times the probability, at most 1 (section 6.5).

        Raises
        ------
        InvalidArgumentError
            The palette is unknown, or ``"jet_r"`` for a score that is not a probability.
        """
        return plot_image(self, self.image, palette)

    def interactive(self, palette: str = PALETTE) -> go.Figure:
        """Draw the heat map over the image with plotly; the pointer shows a place's patch and its score.

        Parameters
        ----------
        palette : str
            Colour map, as for :meth:`plot`.

        Returns
        -------
        plotly.graph_objects.Figure
            Interactive figure.

        Raises
        ------
        ImportError
            Plotly is not installed; the extra ``plot`` has it.
        InvalidArgumentError
            See :meth:`plot`.
        """
        from vista_spark.occlusion._plotly_figure import interactive_heat_map

        rows, columns = self.heat_map.shape
        patches = [[self._patch_in_words(row, column) for column in range(columns)] for row in range(rows)]
        return interactive_heat_map(self, self.image, patches, palette)

    def _patch_in_words(self, row: int, column: int) -> str:
        (top, bottom), (left, right) = self.covered(row, column)
        return f"rows {top} to {bottom}, columns {left} to {right}"

    def draw(self, axes: Axes, palette: str = PALETTE) -> QuadMesh:
        """Draw the heat map over the image on the caller's axes, and return the mesh for a colour bar.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
            Axes to draw on.
        palette : str
            Colour map, as for :meth:`plot`.
        """
        return draw_over_image(self, self.image, axes, palette)

    @classmethod
    def of(
        cls,
        row: Any,
        *,
        heat_map: str = "heat_map",
        explanation: str = "explanation",
        image: bytes | str | os.PathLike[str] | NDArray[np.float32] | None = None,
        class_names: ClassNames | None = None,
    ) -> Explanation:
        """Create an explanation from a row of :class:`vista_spark.OcclusionExplainerModel`.

        Parameters
        ----------
        row : pyspark.sql.Row or mapping
            Row with a heat map and its details.
        heat_map, explanation : str
            Columns of the heat map and the details: the stage's ``outputCol`` and ``detailsCol``. Default
            ``"heat_map"`` and ``"explanation"``.
        image : bytes, path or array, optional
            The row's image, which is preprocessed as for the network. Default: a grey image.
        class_names : sequence, mapping or path, optional
            Names of the score's elements, as in :class:`vista_spark.OcclusionOptions`.

        Raises
        ------
        InvalidArgumentError
            The row has no heat map or no such columns, or the model of an image is not in this process's roster.
        udfs.images.ImageError
            The image cannot be read.
        """
        fields = fields_of_row(row, heat_map, explanation)
        rows, columns = fields["grid"].image
        picture = np.full((rows, columns, 3), _GREY, np.uint8)
        known = fields["model"] in roster.names()
        card = roster.card(fields["model"]) if known else None
        if image is not None:
            if card is None:
                raise InvalidArgumentError(
                    f"the model must be in the roster of this process to preprocess an image, got {fields['model']!r}; "
                    "register its card, or leave the image out"
                )
            preprocessing: Any = card.preprocessing
            preprocessing = preprocessing if preprocessing.crop == rows else preprocessing.with_size(rows)
            picture = shown_image(decode(as_image(image), preprocessing), preprocessing)
        usual = None if card is None or fields["has_random_weights"] else card.class_names
        names = roster.fitting_class_names(class_names, usual, fields.pop("size"))
        return cls(image=picture, class_names=names, **fields)


def shown_image(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Convert the network's input back to pixels."""
    image = pixels.transpose(1, 2, 0) if preprocessing.layout == "NCHW" else pixels
    last = image * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
