"""Ranking of configurations: metrics, their directions, and the order by them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cerebro_spark.errors import InvalidArgumentError
from optimizer.procedures import front, objectives_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.tune._result import TrialResult
    from optimizer.procedures import Objective

__all__ = ["check_objectives", "pareto_front", "rank_key"]


def check_objectives(metric: str | Sequence[str], mode: str | Sequence[str] | None) -> dict[str, list[str]]:
    """Check metrics and modes before there is a network that has them.

    Return ``metric`` and ``mode`` for a procedure that is not going to be asked; a mode that the metric is to say is
    ``"min"``.

    Raises
    ------
    InvalidArgumentError
        There is no metric, one is no name or comes twice, there are more or fewer modes, or one is unknown.

    Examples
    --------
    >>> check_objectives(["accuracy", "val_loss"], None)
    {'metric': ['accuracy', 'loss'], 'mode': ['min', 'min']}
    """
    names = [metric] if isinstance(metric, str) else list(metric)
    # With validation rows both names mean the metric on those.
    plain = [name.removeprefix("val_") if isinstance(name, str) else name for name in names]
    if mode is None:
        mode = ["min"] * len(plain)
    elif isinstance(mode, str) and len(plain) > 1:
        raise InvalidArgumentError(
            f"mode must have one entry for each metric, or be None, got {mode!r} for metric={metric!r}"
        )
    objectives = objectives_of(plain, mode)
    return {"metric": [each.metric for each in objectives], "mode": [each.mode for each in objectives]}


def pareto_front(results: Sequence[TrialResult], objectives: Sequence[Objective]) -> tuple[TrialResult, ...]:
    """Choose the results than which no other is as good in all objectives and better in one.

    Results without a number for each objective are worse than all others. The front is in the order of ``results``.
    """
    measured = [result for result in results if _measured(result)]
    points = [[each.score(result.scores[each.metric]) for each in objectives] for result in measured]
    return tuple(measured[number] for number in front(points))


def rank_key(result: TrialResult, objectives: Sequence[Objective]) -> tuple[bool, tuple[float, ...], str]:
    """Return a key that sorts the best result first.

    By the first objective, of equal ones by the others in turn, so that the first is on the front; then by id. A result
    that did not finish with a number for each objective comes after all that did.
    """
    measured = _measured(result)
    scores = tuple(-each.score(result.scores[each.metric]) for each in objectives) if measured else ()
    return not measured, scores, result.trial_id


def _measured(result: TrialResult) -> bool:
    return result.status == "finished" and all(map(math.isfinite, result.scores.values()))
