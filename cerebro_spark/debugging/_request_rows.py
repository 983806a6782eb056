"""Suspicious rows as JSON for the web page: their numbers, a few values of the table, and thumbnails of images."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import io
import math
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType

from udfs.driver import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pandas as pd
    from pyspark.sql import DataFrame

__all__ = ["json_value", "shown_rows"]

_MOST_COLUMNS = 8
_LONGEST_TEXT = 200
_PIXELS = 64
# JavaScript rounds larger numbers, so these go as text, which ``relabel`` reads as well.
_LARGEST = 1 << 53


def shown_rows(
    ranked: pd.DataFrame, df: DataFrame, id_column: str, columns: Sequence[str], label: str | None = None
) -> list[dict[str, Any]]:
    """Return a document for each row of a result, with values of the table.

    Parameters
    ----------
    ranked : pandas.DataFrame
        Rows with the id; its other columns are taken as they are.
    df : DataFrame
        Table with the id column.
    id_column : str
        Column that names rows.
    columns : sequence of str
        Columns to show, at most eight of them; a column of encoded images gives the thumbnail.
    label : str, optional
        Column whose value is ``given_label``. Default: that of ``ranked``, if it has one.
    """
    chosen = [name for name in dict.fromkeys(columns) if name in df.columns and name != id_column][:_MOST_COLUMNS]
    ids = [_python(each) for each in ranked[id_column].tolist()]
    labels = [] if label is None else [label]
    rows = df.where(F.col(quoted(id_column)).isin(ids)).select(*map(quoted, [id_column, *labels, *chosen])).collect()
    labelled = {row[0]: {"given_label": json_value(row[1])} for row in rows} if labels else {}
    values = {row[0]: dict(zip(chosen, row[1 + len(labels) :], strict=True)) for row in rows}
    images = {name for name in chosen if isinstance(df.schema[name].dataType, BinaryType)}
    records = ranked.drop(columns=id_column).to_dict("records")
    return [
        {
            "id": json_value(ident),
            **{str(name): json_value(value) for name, value in record.items()},
            **labelled.get(ident, {}),
            "values": {name: json_value(value) for name, value in values.get(ident, {}).items() if name not in images},
            "image": _thumbnail(values.get(ident, {}), images),
        }
        for ident, record in zip(ids, records, strict=True)
    ]


def json_value(value: Any) -> Any:
    """Convert a value of a table to JSON; long texts and arrays are cut.

    Examples
    --------
    >>> json_value([1.0, 2.5, 3.0, 4.0, 5.0]), json_value(1 << 60), json_value(float("nan"))
    ('[1.0, 2.5, 3.0, 4.0, ...] (5)', '1152921504606846976', None)
    """
    value = _python(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < _LARGEST else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (list, tuple)):
        text = ", ".join(str(json_value(each)) for each in value[:4])
        return f"[{text}, ...] ({len(value)})" if len(value) > 4 else f"[{text}]"
    if isinstance(value, (decimal.Decimal, dt.date)):
        return str(value)
    text = str(value)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."


def _python(value: Any) -> Any:
    """Return a number of numpy as Python's, and the nulls of pandas as None."""
    import pandas as pd

    if hasattr(value, "tolist"):
        value = value.tolist()
    return None if value is pd.NA or value is pd.NaT else value


def _thumbnail(values: Mapping[str, Any], images: set[str]) -> str | None:
    """Return the first image that can be read as the text of a PNG in base64."""
    from PIL import Image

    for name in sorted(images):
        if values.get(name) is None:
            continue
        try:
            with Image.open(io.BytesIO(values[name])) as image:
                image.draft("RGB", (_PIXELS, _PIXELS))
                small = image.convert("RGB")
            small.thumbnail((_PIXELS, _PIXELS))
        except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
            continue
        file = io.BytesIO()
        small.save(file, "PNG")
        return base64.b64encode(file.getvalue()).decode("ascii")
    return None
