"""The root of the project's exception tree, and the errors of layer graphs and arguments."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ArgumentTypeError",
    "CerebroError",
    "ColumnError",
    "EmptyInputError",
    "GraphError",
    "InvalidArgumentError",
    "LabelError",
    "UnknownLayerError",
    "nearest",
]


class CerebroError(Exception):
    """Base of every error that this project raises on purpose."""


class InvalidArgumentError(CerebroError, ValueError):
    """An argument that is not allowed; the message says which values are."""


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of a type that is not allowed; the message says which types are."""


class ColumnError(CerebroError, ValueError):
    """A column that is missing, of the wrong type, about to be overwritten, or with values that no network takes."""


class LabelError(ColumnError):
    """A label that cannot be learned: null, not a number, of a single class, or also a feature."""


class EmptyInputError(CerebroError, ValueError):
    """Too few rows: an empty table, tables that share no id, or fewer rows than partitions to fill."""


class GraphError(CerebroError, ValueError):
    """An invalid layer graph: a cycle, a dangling input, a duplicate name, a cut that cuts nothing."""


class UnknownLayerError(CerebroError, KeyError):
    """A layer name that the graph does not have.

    Parameters
    ----------
    name : str
        The wrong name.
    known : iterable of str
        The names that exist, in the order to be shown.
    where : str
        The place that was searched, for the message.
    """

    def __init__(self, name: str, known: Iterable[str], where: str = "this graph") -> None:
        known = list(known)
        hint = nearest(name, known)
        super().__init__(f"no layer {name!r} in {where}{hint}; layers: {', '.join(known)}")

    def __str__(self) -> str:
        return str(self.args[0])


def nearest(name: str, known: Iterable[str]) -> str:
    """Suggest the closest known name: ``"; did you mean 'fc7'?"``, or an empty string.

    A name that differs only in case, blanks or separators comes first.

    >>> nearest("ID", ["_id", "id"]), nearest("imageSize", ["image", "image_size"])
    ("; did you mean 'id'?", "; did you mean 'image_size'?")
    """
    known = list(known)
    alike = [each for each in known if each.strip().casefold() == name.strip().casefold()]
    alike += [each for each in known if _letters(each) == _letters(name) != ""]
    match = alike or difflib.get_close_matches(name, known, n=1)
    if not match:
        folded = {each.casefold(): each for each in known}
        match = [folded[each] for each in difflib.get_close_matches(name.casefold(), list(folded), n=1)]
    return f"; did you mean {match[0]!r}?" if match else ""


def _letters(name: str) -> str:
    """Return the letters and digits of a name, in lower case."""
    return "".join(filter(str.isalnum, name)).casefold()
