"""Best value of an experiment by epochs and by seconds."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.steering._progress import Progress

__all__ = ["best_so_far"]


def best_so_far(progress: Progress) -> list[dict[str, Any]]:
    """List the improvements of the best value, in the order in which epochs finished.

    Parameters
    ----------
    progress : Progress
        State of the experiment.

    Returns
    -------
    list of dict
        ``epochs``, the number of finished epochs of all configurations; ``seconds`` since the start of the run, None if
        no unit of the epoch is known; ``value`` and ``trial``. The last entry is the state after the last epoch.

    Examples
    --------
    >>> from optimizer.steering import Configuration, Progress
    >>> history = [{"loss": 0.7}, {"loss": 0.9}, {"loss": 0.5}]
    >>> trained = Configuration("c000", {}, 3, history=history, cursors=[1, 2, 3], ended={0: 2.0, 1: 4.0, 2: 6.0})
    >>> for step in best_so_far(Progress(configurations={"c000": trained})):
    ...     print(step)
    {'epochs': 1, 'seconds': 2.0, 'value': 0.7, 'trial': 'c000'}
    {'epochs': 3, 'seconds': 6.0, 'value': 0.5, 'trial': 'c000'}
    """
    finished = sorted(
        (cursor, each.trial_id, epoch, metrics.get(progress.metric, math.nan), each.ended.get(epoch))
        for each in progress.configurations.values()
        for epoch, (cursor, metrics) in enumerate(zip(each.cursors, each.history, strict=True))
    )
    sign = -1 if progress.mode == "max" else 1
    steps: list[dict[str, Any]] = []
    latest = None
    for epochs, (_, trial, _, value, ended) in enumerate(finished, 1):
        latest = ended if latest is None or (ended is not None and ended > latest) else latest
        step = {"epochs": epochs, "seconds": latest, "value": value, "trial": trial}
        if math.isfinite(value) and (not steps or sign * value < sign * steps[-1]["value"]):
            steps.append(step)
        elif steps and epochs == len(finished):
            steps.append({**step, "value": steps[-1]["value"], "trial": steps[-1]["trial"]})
    return steps
