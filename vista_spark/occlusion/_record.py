"""Numbers of a heat map beside its picture: as JSON, and from a row of the stage."""

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
from vista_spark.occlusion._base import Explained
from vista_spark.occlusion._picture import PALETTE

if TYPE_CHECKING:
    import os

    from matplotlib.figure import Figure

__all__ = ["Recorded", "fields_of_row"]

_FRAMEWORKS = ("torch", "keras", "tensorflow")


class Recorded(Explained, ABC):
    """An explanation that can be drawn, and written to files."""

    def _repr_html_(self) -> str:
        from udfs.driver.figure import picture_and_words  # only who draws pays for matplotlib

        return picture_and_words(self.plot(), self.explain())

    @abstractmethod
    def plot(self, palette: str = PALETTE) -> Figure:
        """Draw the explanation."""

    def to_json(self) -> str:
        """Write the heat map and its facts as JSON, one object; a place that was not computed is null.

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
        """Say where the places lie on what the network's input was made of."""
        return {}

    def save(self, path: str | os.PathLike[str], palette: str = PALETTE) -> tuple[Path, Path]:
        """Write the picture, and the numbers beside it: ``heat.png`` and ``heat.json``.

        Parameters
        ----------
        path : str or path
            Of the picture; its ending is its format, such as ``.png`` or ``.svg``. Folders are made.
        palette : str
            As for :meth:`plot`.

        Returns
        -------
        tuple of two Path
            The picture and the numbers.

        Raises
        ------
        InvalidArgumentError
            An ending that is not a picture's; as :meth:`plot`.
        """
        picture, figure = Path(path), self.plot(palette)
        formats = sorted(figure.canvas.get_supported_filetypes())
        if picture.suffix.lower().removeprefix(".") not in formats:
            raise InvalidArgumentError(
                f"path={str(picture)!r}: the picture's file ends with a dot and one of {', '.join(formats)}; the "
                "numbers are written beside it"
            )
        numbers = picture.with_suffix(".json")
        picture.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(picture, dpi=120)
        numbers.write_text(self.to_json(), encoding="utf-8")
        return picture, numbers


def fields_of_row(row: Any, heat_map: str, explanation: str) -> dict[str, Any]:
    """Read the fields of an explanation from a row that :class:`vista_spark.OcclusionExplainerModel` wrote.

    Parameters
    ----------
    row : pyspark.sql.Row or mapping
    heat_map, explanation : str
        Columns of the heat map and of its details.

    Raises
    ------
    InvalidArgumentError
        A column or a detail is missing, the row has no heat map, or the details do not fit the heat map.
    """
    values, details = (_column(row, name) for name in (heat_map, explanation))
    if values is None or details is None:
        raise InvalidArgumentError(
            f"column {heat_map!r} of this row is null: its image was not explained; the column of errors says why"
        )
    facts = details.asDict(recursive=True) if hasattr(details, "asDict") else dict(details)
    missing = sorted(_DETAILS - facts.keys())
    if missing:
        raise InvalidArgumentError(
            f"column {explanation!r} has no {', '.join(missing)}: transform the images again with this version"
        )
    grid = _grid(facts)
    numbers = np.asarray(values.toArray() if hasattr(values, "toArray") else values, np.float32)
    if numbers.size != grid.count:
        raise InvalidArgumentError(
            f"column {heat_map!r} has {numbers.size} numbers, and {explanation!r} {grid.count} places: columns of "
            "different explainers"
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
        raise InvalidArgumentError(f"the row has no column {name!r}: name it by heat_map= or explanation=") from None


def _grid(facts: dict[str, Any]) -> OcclusionGrid:
    """Rebuild the places; the last one is flush with the border of the region, which it gives away."""
    image, patch = (facts["image_rows"], facts["image_columns"]), facts["patch"]
    starts = [list(facts["row_starts"]), list(facts["column_starts"])]
    region = tuple((along[0], along[-1] + patch) for along in starts)
    grid = OcclusionGrid(image, (patch,) * 2, (facts["stride"],) * 2, region)
    if [grid.starts(axis).tolist() for axis in (0, 1)] != starts:
        raise InvalidArgumentError(f"places that start at {starts} are not every {facts['stride']} pixels")
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
    """Replace what JSON has no word for by null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _without_nan(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value
