"""Outputs of a program: the table of a node in the shape and type of the library's method."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._errors import ProgramError, UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Output"]

_KINDS = "biufU"


@dataclass(frozen=True, eq=False, slots=True)
class Output:
    """A result of a program, and how the library's method gives it.

    Parameters
    ----------
    node : str
        The node that gives it.
    flat : bool
        Whether the library gives an array of shape (rows,), for the one column.
    labels : array of shape (classes,), tuple of such arrays, or None
        Names of classes, if the node gives their places; of a tuple, each column has names of its own.
    split : tuple of int, or None
        Numbers of columns of the arrays in the library's list of results: probabilities of several outputs.
    shape : tuple of int, or None
        The library gives an array of shape (rows, *shape).
    dtype : str or None
        Type of the library's array, if the node's numbers, or its names, are of another.

    Raises
    ------
    UnsupportedOperatorError
        Names of classes that are neither numbers, booleans nor texts.

    Examples
    --------
    >>> Output("best", flat=True, labels=np.array(["no", "yes"])).answer(np.array([[1], [0]])).tolist()
    ['yes', 'no']
    >>> [part.shape for part in Output("shares", split=(2, 3)).answer(np.zeros((4, 5)))]
    [(4, 2), (4, 3)]
    """

    node: str
    flat: bool = False
    labels: NDArray[Any] | tuple[NDArray[Any], ...] | None = None
    split: tuple[int, ...] | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None

    def __post_init__(self) -> None:
        for labels in self._tables():
            _plain(labels)

    def check(self, name: str, width: int) -> None:
        """Validate the number of columns of the node.

        Raises
        ------
        ProgramError
            The node has too many or too few columns.
        """
        wanted = {
            "flat": 1 if self.flat else width,
            "labels": len(self.labels) if isinstance(self.labels, tuple) else width,
            "split": width if self.split is None else sum(self.split),
            "shape": width if self.shape is None else prod(self.shape),
        }
        for field, columns in wanted.items():
            if columns != width:
                raise ProgramError(
                    f"{field} of output {name!r} must be for the {width} columns of {self.node!r}, got {columns}."
                )

    @property
    def texts(self) -> bool:
        """Return whether results are texts, or anything else than numbers and booleans."""
        tables = self._tables()
        return any(
            table.dtype.kind == "U" or any(isinstance(label, str) for label in table.tolist())
            for table in tables
            if table.dtype.kind in "UO"
        )

    def answer(self, values: NDArray[Any]) -> Any:
        """Return the library's array, or list of arrays, for the node's table of shape (rows, columns)."""
        if isinstance(self.labels, tuple):
            named = [labels[values[:, column]] for column, labels in enumerate(self.labels)]
            values = np.stack(named, axis=1)
        elif self.labels is not None:
            values = self.labels[values]
        if self.dtype is not None:
            with np.errstate(invalid="ignore"):  # a bad row may have NaN in place of a whole number
                values = values.astype(self.dtype)
        if self.split is not None:
            return np.split(values, np.cumsum(self.split)[:-1], axis=1)
        if self.shape is not None:
            return values.reshape(len(values), *self.shape)
        return values[:, 0] if self.flat else values

    def document(self) -> dict[str, Any]:
        """Return the output as a JSON document."""
        several = isinstance(self.labels, tuple)
        return {
            "node": self.node,
            "flat": self.flat,
            "labels": None if self.labels is None else [_labels(labels) for labels in self._tables()],
            "several": several,
            "split": None if self.split is None else list(self.split),
            "shape": None if self.shape is None else list(self.shape),
            "dtype": self.dtype,
        }

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Output:
        """Build the output from its :meth:`document`."""
        tables = None if document["labels"] is None else tuple(_labels_of(labels) for labels in document["labels"])
        labels = tables if tables is None or document["several"] else tables[0]
        split, shape = (
            None if document[name] is None else tuple(int(columns) for columns in document[name])
            for name in ("split", "shape")
        )
        return cls(document["node"], bool(document["flat"]), labels, split, shape, document["dtype"])

    def _tables(self) -> tuple[NDArray[Any], ...]:
        if self.labels is None:
            return ()
        return self.labels if isinstance(self.labels, tuple) else (self.labels,)


def _plain(labels: NDArray[Any]) -> list[Any]:
    """Return names of classes as Python's numbers, booleans and texts."""
    values = [label.item() if isinstance(label, np.generic) else label for label in labels.tolist()]
    plain = all(isinstance(label, (str, bool, int, float)) for label in values)
    if labels.dtype.kind not in {*_KINDS, "O"} or not plain:
        raise UnsupportedOperatorError(
            f"labels must be numbers, booleans or texts, got {labels.tolist()[:3]} of type {labels.dtype}."
        )
    return values


def _labels(labels: NDArray[Any]) -> dict[str, Any]:
    # JSON has neither NaN nor infinities: a float is written as its repr, which reads back to the same bits.
    values = [{"float": repr(label)} if isinstance(label, float) else label for label in _plain(labels)]
    return {"dtype": "object" if labels.dtype.kind == "O" else labels.dtype.str, "values": values}


def _labels_of(document: Mapping[str, Any]) -> NDArray[Any]:
    values = [float(item["float"]) if isinstance(item, dict) else item for item in document["values"]]
    return np.array(values, dtype=document["dtype"])
