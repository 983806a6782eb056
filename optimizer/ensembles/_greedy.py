"""Greedy choice of the members of an ensemble."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Choice", "choose_greedily"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Member that a step of the greedy choice adds.

    Parameters
    ----------
    candidate : int
        Number of the candidate, from 0.
    score : float
        Score of the ensemble with it.
    """

    candidate: int
    score: float


def choose_greedily(
    score: Callable[[tuple[int, ...]], float],
    candidates: Sequence[int],
    count: int,
    *,
    replace: bool = True,
    larger_is_better: bool = True,
) -> tuple[Choice, ...]:
    """Choose members one by one, each time the candidate with which the ensemble is best.

    Parameters
    ----------
    score : callable
        Function of the chosen candidates, repeats included, that returns the score of their ensemble.
    candidates : sequence of int
        Numbers of the candidates. Of equally good candidates the first is chosen.
    count : int
        Number of choices.
    replace : bool
        Whether a candidate may be chosen several times. Default true.
    larger_is_better : bool
        Direction of the score. Default true.

    Returns
    -------
    tuple of Choice
        Choices in their order. A score that is not finite is worse than all others.

    Raises
    ------
    InvalidArgumentError
        There are too few candidates, or ``count`` is no positive integer.

    References
    ----------
    Caruana, Niculescu-Mizil, Crew, Ksikes: Ensemble Selection from Libraries of Models, ICML 2004.

    Examples
    --------
    Choose numbers whose mean is close to 3:

    >>> values = [2.5, 1.0, 3.4]
    >>> def error(chosen):
    ...     return abs(3 - sum(values[number] for number in chosen) / len(chosen))
    >>> [choice.candidate for choice in choose_greedily(error, [0, 1, 2], 2, larger_is_better=False)]
    [2, 0]
    """
    whole("count", count)
    fewest = 1 if replace else count
    if len(candidates) < fewest:
        raise InvalidArgumentError(
            f"candidates must be at least {fewest} for {count} choices, got {len(candidates)}. Choose fewer "
            "members, or allow repeats"
        )
    chosen: tuple[int, ...] = ()
    choices = []
    for _ in range(count):
        best: Choice | None = None
        for candidate in candidates:
            if not replace and candidate in chosen:
                continue
            each = Choice(candidate, score((*chosen, candidate)))
            if best is None or _is_better(each.score, best.score, larger_is_better=larger_is_better):
                best = each
        assert best is not None  # there are enough candidates
        chosen = (*chosen, best.candidate)
        choices.append(best)
    return tuple(choices)


def _is_better(score: float, than: float, *, larger_is_better: bool) -> bool:
    if not math.isfinite(score):
        return False
    return not math.isfinite(than) or (score > than if larger_is_better else score < than)
