"""Ablation: fall of the score when a group of elements is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from udfs.attribution._scored_inputs import Importance

if TYPE_CHECKING:
    from udfs.attribution._grouped_inputs import GroupedInputs

__all__ = ["ablate"]


def ablate(grouped: GroupedInputs) -> Importance:
    """Replace one group after the other by a baseline and measure the fall of the score, the mean over its draws.

    The values are those of captum's ``FeatureAblation``.

    Examples
    --------
    >>> from udfs.attribution import GroupedInputs, ScoredInputs
    >>> row, zeros = np.array([1.0, -2.0, 4.0]), np.zeros(3)
    >>> scored = ScoredInputs(lambda batches: batches[0].sum(axis=1), [row])
    >>> ablate(GroupedInputs(scored, [zeros], [np.arange(3)])).values[0]
    array([ 1., -2.,  4.])
    """
    count, draws, whole = grouped.count, grouped.draws, grouped.scored.whole
    kept = np.repeat(~np.eye(count, dtype=np.bool_), draws, axis=0)
    scores = grouped.scores(kept, np.tile(np.arange(draws), count))
    weights = (whole - scores).reshape(count, draws).mean(axis=1)
    return Importance(grouped.values(weights), whole, 1 + len(scores), weights)
