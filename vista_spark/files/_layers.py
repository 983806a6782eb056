"""Parser of ``--layers``."""

from __future__ import annotations

__all__ = ["parse_layers", "parse_layout"]


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


def parse_layout(text: str) -> str | dict[str, str]:
    """Read ``--layout`` as :class:`vista_spark.FeatureTransfer` takes it.

    Parameters
    ----------
    text : str
        A layout of all layers, or ``layer=layout`` with commas.

    Examples
    --------
    >>> parse_layout("channels_last"), parse_layout("blocks.11=tokens+1, norm=tokens")
    ('channels_last', {'blocks.11': 'tokens+1', 'norm': 'tokens'})
    """
    if "=" not in text:
        return text.strip()
    pairs = (item.rpartition("=") for item in text.split(","))
    return {layer.strip(): layout.strip() for layer, _, layout in pairs}
