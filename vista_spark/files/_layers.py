"""Parser of ``--layers``."""

from __future__ import annotations

__all__ = ["parse_layers"]


def parse_layers(text: str) -> int | list[int | str]:
    """Read ``--layers`` as :class:`vista_spark.FeatureTransfer` takes it.

    Parameters
    ----------
    text : str
        Names or numbers from the top, with commas; a bare number ``k`` is the top ``k`` layers.

    Examples
    --------
    >>> parse_layers("4"), parse_layers("block13, 1")
    (4, ['block13', 1])
    """
    if text.strip().isdigit():
        return int(text)
    return [int(item) if item.strip().isdigit() else item.strip() for item in text.split(",")]
