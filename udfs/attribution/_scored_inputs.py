"""Inputs of a network, and the score of a changed batch of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["Importance", "ScoreFunction", "ScoredInputs", "check_positive", "check_seed", "in_batches"]

ScoreFunction: TypeAlias = Callable[[Sequence[NDArray[Any]]], NDArray[np.floating]]
"""A function from one array per input, each of shape ``(batch, *input)``, to an array of shape ``(batch,)``."""


@dataclass(frozen=True)
class ScoredInputs:
    """Record of a network's inputs and the score that is attributed to its parts.

    Raises
    ------
    InvalidArgumentError
        The batch size is not a positive integer; or, from :meth:`scores`, the score is not a finite number per record.
    """

    score: ScoreFunction  # score of a batch; see ScoreFunction
    inputs: Sequence[NDArray[Any]]  # inputs without the axis of records
    batch_size: int = 32  # records per batch

    def __post_init__(self) -> None:
        check_positive("batch_size", self.batch_size)

    @cached_property
    def whole(self) -> float:
        """Score of the unchanged inputs."""
        return float(self.scores([array[None] for array in self.inputs])[0])

    def scores(self, batches: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return the score of each record of a batch."""
        scores = np.asarray(self.score(batches), np.float64)
        if scores.shape != (len(batches[0]),):
            raise InvalidArgumentError(
                f"score must return one number for each of {len(batches[0])} records, got shape {scores.shape}"
            )
        if not np.isfinite(scores).all():
            raise InvalidArgumentError(
                f"scores must be finite, got {int((~np.isfinite(scores)).sum())} of {len(scores)} that are NaN or "
                "infinite; use another score or baseline"
            )
        return scores


@dataclass(frozen=True, slots=True)
class Importance:
    """Importance of the elements of an input for its score."""

    # Importance by input, in its shape: positive where an element supports the target; NaN where it is unknown.
    values: tuple[NDArray[np.float64], ...]
    whole: float  # score of the unchanged inputs
    evaluations: int  # records that were scored
    # Importance of each group, of shape (groups,), in the order of their numbers; empty for methods without groups.
    weights: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    measures: Mapping[str, float] = field(default_factory=dict)  # measures of how reliable the values are


def in_batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Split rows into lists of a size; the last one may be shorter."""
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


def check_positive(name: str, value: object) -> int:
    """Return a positive integer, also numpy's; raise ``InvalidArgumentError`` for another value."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidArgumentError(f"{name} must be a positive integer, got {value!r}")
    return int(value)


def check_seed(seed: object) -> int:
    """Return a seed of numpy's generators; raise ``InvalidArgumentError`` for another value."""
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidArgumentError(f"seed must be an integer of at least 0, got {seed!r}")
    return int(seed)
