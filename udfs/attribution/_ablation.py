"""Ablation: the score's fall when parts of the input are replaced."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.attribution._scoring import checked_scores, in_batches, positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from udfs.attribution._scoring import ScoreFunction

__all__ = ["Ablated", "Part", "ablate"]

Part: TypeAlias = "NDArray[np.bool_] | tuple[slice, ...] | None"
"""A part of one input: a mask that broadcasts to its shape, slices, or ``None`` for nothing of it."""


@dataclass(frozen=True, slots=True)
class Ablated:
    """Effects of parts, made by :func:`ablate`.

    Attributes
    ----------
    effects : array of float64, of shape (parts,)
        Score of the whole input minus the score without the part: positive where the part supports the target.
    values : tuple of array of float64
        For each input, in its shape: the mean effect of the parts that cover an element; NaN where none does.
    whole : float
        Score of the whole input.
    evaluations : int
        Inputs that the score was asked for.
    """

    effects: NDArray[np.float64]
    values: tuple[NDArray[np.float64], ...]
    whole: float
    evaluations: int


def ablate(
    score: ScoreFunction,
    inputs: Sequence[NDArray[Any]],
    baselines: Sequence[NDArray[Any]],
    parts: Sequence[Sequence[Part]],
    *,
    batch_size: int = 32,
) -> Ablated:
    """Replace one part of the input after the other by a baseline, and see how far the score falls.

    With windows for parts this is occlusion, with groups of features captum's ``FeatureAblation``.

    Parameters
    ----------
    score : callable
        See :data:`ScoreFunction`.
    inputs : sequence of array
        Without the axis of records.
    baselines : sequence of array
        For each input what replaces its parts: an array of its shape, or several along a first axis, over which the
        effect is the mean (rows of a table, as a draw of what a column may hold). Every input has as many, or one.
    parts : sequence of sequences of parts
        For each part its place in each input.
    batch_size : int
        Inputs at a time. Default 32.

    Raises
    ------
    InvalidArgumentError
        No parts, a baseline of another shape, a part that covers nothing, a score that is not one finite number.

    Examples
    --------
    >>> def total(batches):
    ...     return batches[0].sum(axis=1)
    >>> row, zeros = np.array([1.0, -2.0, 4.0]), np.zeros(3)
    >>> ablate(total, [row], [zeros], [(np.arange(3) == column,) for column in range(3)]).values[0]
    array([ 1., -2.,  4.])
    """
    size, inputs = positive("batch_size", batch_size), [np.asarray(array) for array in inputs]
    draws = _draws(inputs, baselines)
    if not parts:
        raise InvalidArgumentError("no parts of the input to replace: give at least one")
    count = max(len(drawn) for drawn in draws)
    whole = float(checked_scores(score, [array[None] for array in inputs])[0])
    sums = np.zeros(len(parts))
    for batch in in_batches(product(range(len(parts)), range(count)), size):
        changed = [np.repeat(array[None], len(batch), axis=0) for array in inputs]
        for row, (number, draw) in enumerate(batch):
            for array, drawn, part in zip(changed, draws, parts[number], strict=True):
                if part is not None:
                    at = index_of(part, array.shape[1:])
                    array[row][at] = drawn[draw % len(drawn)][at]
        scores = checked_scores(score, changed)
        np.add.at(sums, [number for number, _ in batch], whole - scores)
    effects = sums / count
    return Ablated(effects, _values(effects, parts, inputs), whole, 1 + len(parts) * count)


def index_of(part: Part, shape: tuple[int, ...]) -> Any:
    """Make a part into an index of an array of a shape."""
    return np.broadcast_to(part, shape) if isinstance(part, np.ndarray) else part


def _draws(inputs: Sequence[NDArray[Any]], baselines: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Give every baseline an axis of draws."""
    if len(baselines) != len(inputs):
        raise InvalidArgumentError(f"{len(baselines)} baselines for {len(inputs)} inputs: give one for each")
    draws = []
    for number, (array, baseline) in enumerate(zip(inputs, baselines, strict=True)):
        drawn = np.asarray(baseline)
        drawn = drawn[None] if drawn.ndim == array.ndim else drawn
        if drawn.shape[1:] != array.shape or not len(drawn):
            raise InvalidArgumentError(
                f"a baseline of shape {np.shape(baseline)} for input {number} of shape {array.shape}: give that shape, "
                "or several of it along a first axis"
            )
        draws.append(drawn.astype(array.dtype))
    if len({len(drawn) for drawn in draws} - {1}) > 1:
        raise InvalidArgumentError(
            f"baselines of {[len(drawn) for drawn in draws]} draws: give every input as many, or one"
        )
    return draws


def _values(
    effects: NDArray[np.float64], parts: Sequence[Sequence[Part]], inputs: Sequence[NDArray[Any]]
) -> tuple[NDArray[np.float64], ...]:
    """Average the effects over the parts that cover each element."""
    sums = [np.zeros(array.shape) for array in inputs]
    counts = [np.zeros(array.shape) for array in inputs]
    for number, (effect, places) in enumerate(zip(effects, parts, strict=True)):
        covered = 0
        for total, count, part in zip(sums, counts, places, strict=True):
            if part is not None:
                at = index_of(part, total.shape)
                total[at] += effect
                count[at] += 1
                covered += count[at].size
        if not covered:
            raise InvalidArgumentError(f"part {number} covers nothing of the input")
    with np.errstate(invalid="ignore"):
        return tuple(total / count for total, count in zip(sums, counts, strict=True))
