"""One handler a framework, behind one protocol.

A handler opens a model into a :class:`optimizer.graph.LayerGraph` and runs any part of it on a batch. Everything above
this package is framework-neutral: it names layers and moves numpy arrays.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from optimizer.errors import nearest
from udfs.handlers._protocol import Handler, TensorSpec, TracedModel, UntraceableModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FRAMEWORKS", "Handler", "TensorSpec", "TracedModel", "UntraceableModelError", "handler"]

FRAMEWORKS: Sequence[str] = ("torch", "keras")
"""The frameworks that have a handler; each is an optional extra at install."""

_EXTRAS = {"torch": "torch", "keras": "tensorflow"}


def handler(framework: str) -> Handler:
    """Import the handler of one framework.

    Parameters
    ----------
    framework : str
        One of :data:`FRAMEWORKS`.

    Raises
    ------
    ValueError
        There is no such handler.
    ImportError
        The framework is not installed; the message says which extra installs it.

    Examples
    --------
    >>> handler("torch").name
    'torch'
    """
    if framework not in FRAMEWORKS:
        raise ValueError(
            f"no handler for {framework!r}{nearest(framework, FRAMEWORKS)}; there are: {', '.join(FRAMEWORKS)}"
        )
    try:
        module = import_module(f"udfs.handlers.{framework}")
    except ModuleNotFoundError as error:
        if str(error.name).startswith("udfs"):
            raise
        raise ImportError(f'{framework} is not installed: pip install "cerebro-spark[{_EXTRAS[framework]}]"') from error
    found: Handler = module.HANDLER
    return found
