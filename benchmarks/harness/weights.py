"""Network of a benchmark and its weights."""

from __future__ import annotations

from weights import mobilenet_v2  # a program of the examples, not a package

from vista_spark import roster

__all__ = ["card_of", "found_weights"]


def card_of(model: str) -> roster.ModelCard:
    """Find a network by its name in the roster, or by the path of a folder of transformers, which has a slash."""
    return roster.from_pretrained(model) if "/" in model else roster.card(model)


def found_weights(wanted: str, model: str) -> str | None:
    """A path, or ``None`` for random weights.

    Parameters
    ----------
    wanted : str
        A path, ``"random"``, or ``"auto"``: the ImageNet ones of ``mobilenet_v2`` if they are installed.
    model : str
    """
    if wanted != "auto":
        return None if wanted == "random" else wanted
    try:
        return str(mobilenet_v2()) if model == "mobilenet_v2" else None
    except FileNotFoundError:
        return None
