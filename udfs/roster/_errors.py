"""Errors of the roster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.errors import CerebroError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["UnknownModelError"]


class UnknownModelError(CerebroError, KeyError):
    """Name of a model that the roster does not have.

    Parameters
    ----------
    name : str
        The name that was asked for.
    known : iterable of str
        The names of the roster, in the order to be shown.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = list(known)
        super().__init__(f"no model {name!r} in the roster{nearest(name, known)}; models: {', '.join(known)}")

    def __str__(self) -> str:
        return str(self.args[0])
