"""Class scores of a model for one DataFrame: what models of cascades provide."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.cascades._members import Member

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from udfs.arrow import BatchFunction

__all__ = ["ClassScores", "identity_of"]

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class ClassScores:
    """Class scores of a model for one DataFrame.

    A model can be a member of a cascade if it has a method ``class_scores(dataset)`` that returns this value, and
    raises the errors of its ``transform``, without a job of Spark.

    Parameters
    ----------
    function : BatchFunction
        Adds a column of class scores: a list per row, or the probability of the second of two classes.
    reads : mapping of str to Column or str
        For each column that the function reads, a column of the DataFrame or an expression.
    labels : tuple of str or float, optional
        Classes in the order of the scores. Default: the model does not name them.
    width : int
        Number of classes. Default 0: only the scores show it.
    digest : str
        Identity of the model for stored answers. Default: answers are not stored.
    column : str
        Column of the scores. Default ``"scores"``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from udfs.cascades import ColumnScores
    >>> guess = ClassScores(ColumnScores("guess", pa.float64()), {"guess": "guess"}, labels=("no", "yes"), width=2)
    >>> guess.member("proxy 1", ["yes", "no"]).classes
    (1, 0)
    """

    function: BatchFunction
    reads: Mapping[str, Column | str] = field(repr=False)
    labels: tuple[Any, ...] | None = None
    width: int = 0
    digest: str = ""
    column: str = "scores"

    def member(self, name: str, labels: Sequence[Any]) -> Member:
        """Return the member of a cascade, with its classes in the order of the oracle's.

        Parameters
        ----------
        name : str
            Name of the member.
        labels : sequence of str or float
            Classes of the oracle; empty if they are not known.

        Raises
        ------
        InvalidArgumentError
            The model knows a class that the oracle does not know, or has another number of classes.
        """
        known, classes = list(labels), None
        if known and self.labels is not None:
            strange = [label for label in self.labels if label not in known]
            if strange:
                raise InvalidArgumentError(
                    f"{name} must have classes of the oracle ({_listed(known)}), got {_listed(strange)}. "
                    "Fit it on the labels of the oracle."
                )
            classes = tuple(known.index(label) for label in self.labels)
        elif known and self.width not in (0, len(known)):
            raise InvalidArgumentError(
                f"{name} must have scores of the {len(known)} classes of the oracle, got {self.width}. "
                "Choose a layer, or fit it on the labels of the oracle."
            )
        return Member(name, self.function, self.column, classes, self.digest)


def identity_of(*parts: bytes) -> str:
    """Return the identity of a model for stored answers: a hash of what its scores depend on."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _listed(labels: Sequence[Any]) -> str:
    shown = ", ".join(map(repr, labels[:_SHOWN]))
    return f"{shown} and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else shown
