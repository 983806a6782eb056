"""The heat map of one image, with the image and the coordinates of its photograph."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.images import decode
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._arguments import as_image, whole_number
from vista_spark.occlusion._picture import PALETTE, draw_over_image, plot_image
from vista_spark.occlusion._record import Recorded, fields_of_row

if TYPE_CHECKING:
    import os

    import plotly.graph_objects as go
    from matplotlib.axes import Axes
    from matplotlib.collections import QuadMesh
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from udfs.images import PictureGeometry, Preprocessing, Region
    from vista_spark.roster import ClassNames

__all__ = ["Explanation", "shown_image"]

# A picture in place of an image that is not given.
_GREY = 128


@dataclass(frozen=True)
class Explanation(Recorded):
    """How much the score of a class depends on each part of an image. Made by :func:`explain_image`.

    Attributes
    ----------
    heat_map : array of float32, of shape ``grid.shape``
        Score of the target with the patch there; NaN where it has not been computed.
    grid : OcclusionGrid
    target, predicted : int
        The element of the score that the heat map is of, and the largest one for the whole image.
    probability : float
        Score of the target for the whole image; a probability where `score` says so.
    mode : str
    theoretical_speedup : float
        Of a place over the naive mode's, by FLOPs.
    seconds : float
        For several targets, those of the one pass.
    score : str
        The score in words, as ``"probability: softmax over the 1000 outputs of 'classifier.1'"``.
    verified : int
        Places that were computed again with the untouched network.
    difference : float
        The largest difference found there.
    notes : tuple of str
        Remarks on how the heat map was computed.
    top : tuple of (int, float)
        The five largest elements of the score for the whole image, and their scores.
    class_names : tuple of str
        Names of the score's elements; empty where they are not known.
    likeness : float or None
        Estimated SSIM with the exact heat map, of an approximate one; ``None`` where there are too few places.
    computed : int or None
        Places that were computed; the others follow from them.
    model : str
    has_random_weights : bool
        Whether the network was drawn at random: the heat map says nothing then.
    image : array of uint8, of shape (height, width, 3)
        As the network sees it.
    geometry : PictureGeometry or None
        Coordinates of the photograph, where the request was in them.
    """

    image: NDArray[np.uint8]
    geometry: PictureGeometry | None = field(default=None, kw_only=True)

    def _located(self) -> dict[str, Any]:
        """Rows and columns of the photograph that the patch covers, by row and by column of the heat map."""
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
        """Rows and columns that the patch covers at a place, in the coordinates of the request.

        Parameters
        ----------
        row, column : int
            Of the heat map.

        Returns
        -------
        tuple of two pairs of int
            Half-open; of the photograph, or of the network's input.

        Raises
        ------
        InvalidArgumentError
            The heat map has no such row or column.
        """
        index = [whole_number(name, at, 0) for name, at in (("row", row), ("column", column))]
        for name, at, count in zip(("row", "column"), index, self.grid.shape, strict=True):
            if at >= count:
                raise InvalidArgumentError(f"{name}={at}: from 0 to {count - 1}, by the places of the heat map")
        starts = (int(self.grid.starts(axis)[at]) for axis, at in enumerate(index))
        rows, columns = ((start, start + extent) for start, extent in zip(starts, self.grid.patch, strict=True))
        return (rows, columns) if self.geometry is None else self.geometry.to_photograph((rows, columns))

    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the image, and beside it the heat map over it: red where the prediction needs what is there.

        Colours are centred on the whole image's own score, and their limits fit the heat map; an arrow at an end of the
        colour bar says that some places are beyond. A place that changes nothing has no colour.

        Parameters
        ----------
        palette : str
            Any colour map of matplotlib, for low values first. Default ``"RdBu"``. ``"jet_r"`` has the colours and
            limits of Krypton's pictures: from 0.75 to 1.25 times the probability, at most 1 (section 6.5).

        Raises
        ------
        InvalidArgumentError
            An unknown palette; ``"jet_r"`` for a score that is not a probability.
        """
        return plot_image(self, self.image, palette)

    def interactive(self, palette: str = PALETTE) -> go.Figure:
        """Draw the heat map over the image with plotly; the pointer reads a place's patch and its score.

        Parameters
        ----------
        palette : str
            As for :meth:`plot`.

        Returns
        -------
        plotly.graph_objects.Figure

        Raises
        ------
        ImportError
            Plotly is not installed: the extra ``plot`` has it.
        InvalidArgumentError
            As for :meth:`plot`.
        """
        from vista_spark.occlusion._interactive import interactive_heat_map  # plotly is optional

        rows, columns = self.heat_map.shape
        patches = [[self._patch_in_words(row, column) for column in range(columns)] for row in range(rows)]
        return interactive_heat_map(self, self.image, patches, palette)

    def _patch_in_words(self, row: int, column: int) -> str:
        (top, bottom), (left, right) = self.covered(row, column)
        return f"rows {top} to {bottom}, columns {left} to {right}"

    def draw(self, axes: Axes, palette: str = PALETTE) -> QuadMesh:
        """Draw the heat map over the image on the caller's axes; the mesh returned is for a colour bar.

        Parameters
        ----------
        axes : matplotlib.axes.Axes
        palette : str
            As for :meth:`plot`.
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
        """Make an explanation of a row of :class:`vista_spark.OcclusionExplainerModel`, to draw or to save it.

        Parameters
        ----------
        row : pyspark.sql.Row or mapping
        heat_map, explanation : str
            The stage's ``outputCol`` and ``detailsCol``. Default ``"heat_map"`` and ``"explanation"``.
        image : bytes, path or array, optional
            The row's image, which is prepared as the network saw it; a grey picture by default.
        class_names : sequence, mapping or path, optional
            As for :func:`vista_spark.explain_image`.

        Raises
        ------
        InvalidArgumentError
            The row has no heat map or no such columns; or the model is not in this process's roster and an image is
            given.
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
                    f"model {fields['model']!r} is not in the roster of this process, and says how an image is "
                    "prepared: register its card, or leave the image out"
                )
            preprocessing: Any = card.preprocessing
            preprocessing = preprocessing if preprocessing.crop == rows else preprocessing.with_size(rows)
            picture = shown_image(decode(as_image(image), preprocessing), preprocessing)
        usual = None if card is None or fields["has_random_weights"] else card.class_names
        names = roster.fitting_class_names(class_names, usual, fields.pop("size"))
        return cls(image=picture, class_names=names, **fields)


def shown_image(pixels: NDArray[np.float32], preprocessing: Preprocessing) -> NDArray[np.uint8]:
    """Pixels back from the network's input."""
    image = pixels.transpose(1, 2, 0) if preprocessing.layout == "NCHW" else pixels
    last = image * np.array(preprocessing.std) + np.array(preprocessing.mean)
    picture: NDArray[np.uint8] = np.clip(np.rint(last / preprocessing.scale), 0, 255).astype(np.uint8)
    return picture if preprocessing.channels == "RGB" else picture[:, :, ::-1]
