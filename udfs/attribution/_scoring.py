"""Score of a batch of inputs: what every algorithm of this package asks of a network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["ScoreFunction", "checked_scores", "checked_seed", "in_batches", "positive"]

ScoreFunction: TypeAlias = Callable[[Sequence[NDArray[Any]]], NDArray[np.floating]]
"""A function from one array per input, each of shape ``(batch, *input)``, to an array of shape ``(batch,)``."""


def checked_scores(score: ScoreFunction, batches: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
    """Ask for the scores of a batch.

    Raises
    ------
    InvalidArgumentError
        There is not one finite number for each input.
    """
    scores = np.asarray(score(batches), np.float64)
    if scores.shape != (len(batches[0]),):
        raise InvalidArgumentError(
            f"a score of shape {scores.shape} for a batch of {len(batches[0])}: return one number for each input"
        )
    if not np.isfinite(scores).all():
        raise InvalidArgumentError(
            f"{int((~np.isfinite(scores)).sum())} of {len(scores)} scores are NaN or infinite: nothing can be "
            "attributed; take another score or baseline"
        )
    return scores


def in_batches(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Group rows into lists of a size, the last of what remains."""
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


def positive(name: str, value: object) -> int:
    """Check that an argument is a whole number from 1 on, of Python's or numpy's type.

    Raises
    ------
    InvalidArgumentError
        It is another value.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise InvalidArgumentError(f"{name}={value!r}: a whole number from 1 on")
    return int(value)


def checked_seed(seed: object) -> int:
    """Check that a seed is one that numpy's generators take: a whole number from 0 on.

    Raises
    ------
    InvalidArgumentError
        It is another value.
    """
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer) or seed < 0:
        raise InvalidArgumentError(f"seed={seed!r}: a whole number from 0 on")
    return int(seed)
