"""Records of heat maps: pictures with JSON, and rows of the stage."""

from __future__ import annotations

import json
import math
import platform
from abc import ABC, abstractmethod
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer import __version__
from optimizer.occlusion import OcclusionGrid
from vista_spark.errors import InvalidArgumentError
from vista_spark.occlusion._base_explanation import Explained
from vista_spark.occlusion._heat_map_figure import PALETTE

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure

__all__ = ["Recorded", "fields_of_row"]

_FRAMEWORKS = ("torch", "keras", "tensorflow")


class Recorded(Explained, ABC):
    """Explanation that can be drawn and saved."""

    def _repr_html_(self) -> str:
        from udfs.driver.figure import picture_and_words  # only who draws pays for matplotlib

        return picture_and_words(self.plot(), self.explain())

    @abstractmethod
    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the explanation."""

    def to_json(self) -> str:
        """Return the heat map and its description as a JSON object; a place that is not computed is null.

        ``heat_map`` is a list of rows, and ``starts`` has the first pixel of the patch by row and by column. ``top``
        lists the largest elements of the score for the whole image.
        """
        grid = self.grid
        facts = {
            "model": self.model,
            "target": self.target,
            "target_name": self.name_of(self.target),
            "predicted": self.predicted,
            "predicted_name": self.name_of(self.predicted),
            "probability": self.probability,
            "score": self.score,
            "top": [{"element": element, "name": self.name_of(element), "score": score} for element, score in self.top],
            "mode": self.mode,
            "likeness": self.likeness,
            "random_weights": self.has_random_weights,
            "patch": grid.patch,
            "stride": grid.stride,
            "image": grid.image,
            "starts": [grid.starts(axis).tolist() for axis in range(len(grid.image))],
            "seconds": self.seconds,
            "theoretical_speedup": self.theoretical_speedup,
            "verified": self.verified,
            "difference": self.difference,
            "notes": self.notes,
            "versions": _versions(),
            **self._located(),
            "heat_map": self.heat_map.tolist(),
        }
        return json.dumps(_without_nan(facts), allow_nan=False)

    def _located(self) -> dict[str, Any]:
        """Return the positions of the places on the source of the network's input."""
        return {}

    def save(self, path: str | os.PathLike[str], palette: str = PALETTE) -> tuple[Path, Path]:
        """Write the picture, and the numbers beside it: ``heat.png`` and ``heat.json``.

        Parameters
        ----------
        path : str or path
            Path of the picture, whose suffix is the format, such as ``.png`` or ``.svg``. Missing folders are created.
        palette : str
            Colour map, as for :meth:`plot`.

        Returns
        -------
        tuple of two Path
            Paths of the picture and the numbers.

        Raises
        ------
        InvalidArgumentError
            The suffix is not a picture format, or as :meth:`plot`.
        """
        picture, figure = Path(path), self.plot(palette)
        formats = sorted(figure.canvas.get_supported_filetypes())
        if picture.suffix.lower().removeprefix(".") not in formats:
            raise InvalidArgumentError(
                f"path must have one of the suffixes {', '.join(formats)}, got {str(picture)!r}; the numbers are "
                "written to the same name with .json"
            )
        numbers = picture.with_suffix(".json")
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture, dpi=120)
        numbers.write_text(self.to_json(), encoding="utf-8")
        return picture, numbers


def fields_of_row(row: Any, heat_map: str, explanation: str) -> dict[str, Any]:
    """Read the fields of an explanation from a row that :class:`vista_spark.OcclusionExplainerModel` wrote.

    ``heat_map`` and ``explanation`` name the columns. Raise InvalidArgumentError if a column or a detail is missing,
    the row has no heat map, or the details do not match it.
    """
    values, details = (_column(row, name) for name in (heat_map, explanation))
    if values is None or details is None:
        raise InvalidArgumentError(
            f"column {heat_map!r} of this row must have a heat map, got null; the column of errors has the reason"
        )
    facts = details.asDict(recursive=True) if hasattr(details, "asDict") else dict(details)
    missing = sorted(_DETAILS - facts.keys())
    if missing:
        raise InvalidArgumentError(
            f"column {explanation!r} must have {', '.join(missing)}; transform the images again with this version"
        )
    grid = _grid(facts)
    numbers = np.asarray(values.toArray() if hasattr(values, "toArray") else values, np.float32)
    if numbers.size != grid.count:
        raise InvalidArgumentError(
            f"column {heat_map!r} must have {grid.count} numbers, as {explanation!r} has places, got {numbers.size}; "
            "pass columns of the same explainer"
        )
    return {
        "heat_map": numbers.reshape(grid.shape),
        "grid": grid,
        "likeness": facts["estimated_ssim"],
        "size": facts["elements"],
        "has_random_weights": facts["random_weights"],
        "top": tuple((each["element"], each["score"]) for each in facts["top"]),
        **{name: facts[name] for name in _SAME},
    }


_SAME = (
    "target", "predicted", "probability", "mode", "theoretical_speedup", "seconds", "score", "verified", "difference",
    "model",
)  # fmt: skip
_DETAILS = {
    *_SAME, "estimated_ssim", "elements", "random_weights", "top", "patch", "stride", "image_rows", "image_columns",
    "row_starts", "column_starts",
}  # fmt: skip


def _column(row: Any, name: str) -> Any:
    try:
        return row[name]
    except (KeyError, ValueError, IndexError, TypeError):
        raise InvalidArgumentError(f"the row must have column {name!r}; set heat_map= or explanation=") from None


def _grid(facts: dict[str, Any]) -> OcclusionGrid:
    """Restore the places; the last one is flush with the border of the region and so determines it."""
    image, patch = (facts["image_rows"], facts["image_columns"]), facts["patch"]
    starts = [list(facts["row_starts"]), list(facts["column_starts"])]
    region = tuple((along[0], along[-1] + patch) for along in starts)
    grid = OcclusionGrid(image, (patch,) * 2, (facts["stride"],) * 2, region)
    if [grid.starts(axis).tolist() for axis in (0, 1)] != starts:
        raise InvalidArgumentError(f"places must start every {facts['stride']} pixels, got {starts}")
    return grid


def _versions() -> dict[str, str]:
    versions = {"cerebro-spark": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for name in _FRAMEWORKS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def _without_nan(value: Any) -> Any:
    """Replace NaN and infinity, which JSON lacks, by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value
