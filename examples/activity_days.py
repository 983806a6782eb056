"""Days of rest and activity made of real recordings, and scores of posture predictions: the case study's data.

``notebooks/activity_recognition.ipynb`` repeats the case study of Cerebro's thesis (section 4.1), which finds sitting
in a week of a hip-worn accelerometer. Its data are not public. The days here are chained: each is a random sequence
of bouts of rest and of activity, filled with recordings of BasicMotions (10 s of a watch's accelerometer at 10 Hz).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ACTIVITIES", "CHANNELS", "bouts", "chain_days", "score_days", "transitions"]

CHANNELS = ("acc_x", "acc_y", "acc_z")
ACTIVITIES = ("Badminton", "Running", "Standing", "Walking")
"""Classes of ``search_data.py motions`` in the order of their numbers."""

# Share of the activities in a bout of each state: people at rest move at times, and active ones pause.
_SHARES = {1: (0.05, 0.0, 0.75, 0.2), 0: (0.25, 0.15, 0.2, 0.4)}
# Median length of a bout in epochs of 10 s, and the deviation of its logarithm.
_MEDIAN, _SPREAD = {1: 18, 0: 12}, 0.7
_HERTZ, _EPOCHS_PER_MINUTE = 10, 6


def chain_days(
    motions: pd.DataFrame, subjects: Sequence[str], *, minutes: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Chain recordings to a day for each subject.

    Parameters
    ----------
    motions : pandas.DataFrame
        Recordings to draw from: ``signal`` (channels, 100 steps each) and ``label``, a number of an activity.
    subjects : sequence of str
        Names of the subjects.
    minutes : int
        Length of a day.
    seed : int
        Seed of the days.

    Returns
    -------
    tuple of pandas.DataFrame
        Rows of 0.1 s (``subject``, ``time`` in seconds, the channels, ``rest``), and epochs of 10 s (``subject``,
        ``epoch``, ``activity``, ``rest``).
    """
    random = np.random.default_rng(seed)
    signals = np.stack([np.stack(signal)[: len(CHANNELS)] for signal in motions["signal"]]).transpose(0, 2, 1)
    labels = motions["label"].to_numpy()
    pools = [np.flatnonzero(labels == number) for number in range(len(ACTIVITIES))]
    rows, epochs = [], []
    for subject in subjects:
        states = _states(random, minutes * _EPOCHS_PER_MINUTE)
        drawn = [random.choice(len(ACTIVITIES), p=_SHARES[state]) for state in states.tolist()]
        recordings = [random.choice(pools[activity]) for activity in drawn]
        day = np.concatenate(signals[recordings])
        steps = len(day) // len(states)
        rows.append(
            pd.DataFrame(day, columns=list(CHANNELS)).assign(
                subject=subject, time=np.arange(len(day)) / _HERTZ, rest=np.repeat(states, steps)
            )
        )
        epochs.append(
            pd.DataFrame({"epoch": np.arange(len(states)), "activity": drawn, "rest": states, "subject": subject})
        )
    return pd.concat(rows, ignore_index=True), pd.concat(epochs, ignore_index=True)


def _states(random: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Draw alternating bouts of rest (1) and activity (0)."""
    states: list[int] = []
    state = int(random.integers(2))
    while len(states) < count:
        length = max(3, round(_MEDIAN[state] * random.lognormal(0, _SPREAD)))
        states += [state] * length
        state = 1 - state
    return np.array(states[:count])


def bouts(states: NDArray[Any], state: int) -> NDArray[np.int64]:
    """Return the lengths of the bouts of a state, in epochs.

    Examples
    --------
    >>> bouts(np.array([1, 1, 0, 1, 0, 0]), 1).tolist()
    [2, 1]
    """
    edges = np.flatnonzero(np.diff(states == state, prepend=False, append=False))
    lengths: NDArray[np.int64] = np.diff(edges.reshape(-1, 2), axis=1)[:, 0]
    return lengths


def transitions(states: NDArray[Any]) -> NDArray[np.int64]:
    """Return the epochs at which activity begins after rest.

    Examples
    --------
    >>> transitions(np.array([1, 1, 0, 1, 0, 0])).tolist()
    [2, 4]
    """
    begins: NDArray[np.int64] = np.flatnonzero((states[1:] == 0) & (states[:-1] == 1)) + 1
    return begins


def _matches(truth: NDArray[Any], predicted: NDArray[Any], tolerance: int) -> int:
    """Count predicted transitions near true ones; each is matched once."""
    left, count = predicted.tolist(), 0
    for epoch in truth.tolist():
        near = [other for other in left if abs(other - epoch) <= tolerance]
        if near:
            left.remove(min(near, key=lambda other: abs(other - epoch)))
            count += 1
    return count


def score_days(days: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], *, tolerance: int = 6) -> dict[str, float]:
    """Compute the metrics of Table 4.1 and of section 4.1.4 of the thesis.

    Parameters
    ----------
    days : mapping of str to tuple of array
        True and predicted states of each subject's epochs of 10 s: 1 for rest, 0 for activity.
    tolerance : int
        Largest distance in epochs of a predicted transition from a true one. Default 6, a minute.

    Returns
    -------
    dict of str to float
        Shares from 0 to 1, lengths in minutes, and Kolmogorov-Smirnov distances of the lengths of bouts.
    """
    from scipy.stats import ks_2samp  # needs a second

    pairs = list(days.values())
    truth, predicted = (np.concatenate([_minutes(pair[side]) for pair in pairs]) for side in (0, 1))
    hits = sum(_matches(transitions(true), transitions(guess), tolerance) for true, guess in pairs)
    counts = [sum(len(transitions(pair[side])) for pair in pairs) for side in (0, 1)]
    lengths = [[np.concatenate([bouts(pair[side], state) for pair in pairs]) for side in (0, 1)] for state in (1, 0)]
    recalls = [float((predicted[truth == state] == state).mean()) for state in (0, 1)]
    return {
        "minute accuracy": float((truth == predicted).mean()),
        "balanced accuracy": sum(recalls) / 2,
        "transition sensitivity": hits / max(counts[0], 1),
        "transition predictive value": hits / max(counts[1], 1),
        "mean rest bout": float(lengths[0][1].mean()) / _EPOCHS_PER_MINUTE,
        "true mean rest bout": float(lengths[0][0].mean()) / _EPOCHS_PER_MINUTE,
        "KS distance, rest": float(ks_2samp(*lengths[0]).statistic),
        "KS distance, activity": float(ks_2samp(*lengths[1]).statistic),
    }


def _minutes(states: NDArray[Any]) -> NDArray[np.int64]:
    """Return the more frequent state of each whole minute; rest if both are as frequent."""
    whole = len(states) // _EPOCHS_PER_MINUTE * _EPOCHS_PER_MINUTE
    shares: NDArray[np.float64] = states[:whole].reshape(-1, _EPOCHS_PER_MINUTE).mean(axis=1)
    return (shares >= 0.5).astype(np.int64)
