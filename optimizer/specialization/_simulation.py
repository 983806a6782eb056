"""Simulation of sequential specialization with models that answer by given probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.specialization._state import OTHER
from optimizer.specialization._windowed_greedy import WindowedGreedy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from optimizer.specialization._accuracy import Confusion
    from optimizer.specialization._policy import Policy

__all__ = ["Segment", "SimulatedRun", "draw_labels", "simulate"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a stream: some dominant classes with a share of the inputs, as in Table 5.2.

    Parameters
    ----------
    dominant : int
        Number of dominant classes; 0 for inputs that are uniform over all classes.
    skew : float
        Share of the inputs in them.
    minutes : float
        Duration. Default 5.
    """

    dominant: int
    skew: float
    minutes: float = 5.0


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """Result of a simulation.

    Parameters
    ----------
    speedup : float
        Time of the oracle on every frame, relative to the time of the run.
    accuracy, oracle_accuracy : float
        Share of frames answered correctly by the run, and by the oracle alone.
    special_rate : float
        Share of frames in the specialised phase, ``s``.
    cascade_rate : float
        Share of frames in the specialised phase that the oracle answered, ``c``.
    transitions, trained : int
        Specialised phases, and experts that were trained.
    seconds : float
        Mean time of a frame, in seconds.
    """

    speedup: float
    accuracy: float
    oracle_accuracy: float
    special_rate: float
    cascade_rate: float
    transitions: int
    trained: int
    seconds: float


def draw_labels(segments: Sequence[Segment], *, classes: int, fps: float = 6.0, seed: int = 0) -> NDArray[np.int64]:
    """Return the classes of a stream, segment by segment (section 5.4.1).

    Parameters
    ----------
    segments : sequence of Segment
        Parts of the stream; the dominant classes of each are drawn anew.
    classes : int
        Number of classes; each segment has fewer dominant ones.
    fps : float
        Frames per second. Default 6.
    seed : int
        Seed of the classes. Default 0.

    Returns
    -------
    array of int of shape (frames,)
        Classes from 0 to `classes` - 1.

    Examples
    --------
    >>> len(draw_labels([Segment(5, 0.9), Segment(0, 0.0, 1)], classes=100))
    2160
    """
    random = np.random.default_rng(seed)
    parts = []
    for segment in segments:
        frames = round(segment.minutes * 60 * fps)
        order = random.permutation(classes)
        dominant, others = order[: segment.dominant], order[segment.dominant :]
        labels = others[random.integers(len(others), size=frames)]
        if segment.dominant:
            inside = random.random(frames) < segment.skew
            labels = np.where(inside, dominant[random.integers(segment.dominant, size=frames)], labels)
        parts.append(labels)
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def simulate(policy: Policy, labels: Sequence[int] | NDArray[np.int64], *, seed: int = 0) -> SimulatedRun:
    """Run the algorithm over the classes of a stream, with models that err as their measurements say.

    The oracle is right with its accuracy, else it answers any other class. A specialised model answers by its curve.

    Parameters
    ----------
    policy : Policy
        Settings, costs and accuracies.
    labels : sequence of int
        True classes of the frames.
    seed : int
        Seed of the answers. Default 0.

    Examples
    --------
    >>> from optimizer.specialization import CompactProfile, Confusion, ConfusionCurve, Policy
    >>> curve = ConfusionCurve((5,), (Confusion(0.95, 0.02, 0.95),))
    >>> policy = Policy(classes=300, accuracy=0.9, seconds=0.4, compacts=[CompactProfile("small", 0.01, curve)])
    >>> simulate(policy, draw_labels([Segment(5, 0.9)], classes=300)).speedup > 2
    True
    """
    stream, random = WindowedGreedy(policy), np.random.default_rng([seed, 1])
    truths = np.asarray(labels, np.int64)
    wrong = (truths + random.integers(1, policy.classes, size=len(truths))) % policy.classes
    answers = np.where(random.random(len(truths)) < policy.accuracy, truths, wrong)
    draws = random.random((len(truths), 2))
    seconds, hits, special, cascaded, transitions = 0.0, 0, 0, 0, 0
    trained = 0
    for truth, answer, draw in zip(truths.tolist(), answers.tolist(), draws, strict=True):
        need = stream.need()
        compact = None
        if need.expert is not None:
            profile = policy.compacts[need.expert.compact]
            seconds += profile.seconds
            compact = _compact_answer(profile.curve.at(len(need.expert.dominant)), need.expert.dominant, truth, draw)
        asks = need.oracle or compact == OTHER
        seconds += asks * policy.seconds
        decision = stream.observe(answer if asks else None, compact)
        hits += decision.label == truth
        if decision.phase == "specialized":
            special += 1
            cascaded += asks
        transitions += decision.phase != "specialized" and stream.state.phase == "specialized"
        if stream.state.trained > trained:
            trained = stream.state.trained
            assert stream.state.expert is not None
            seconds += policy.compacts[stream.state.expert.compact].training_seconds
    frames = max(len(truths), 1)
    return SimulatedRun(
        speedup=policy.seconds * len(truths) / seconds if seconds else 1.0,
        accuracy=hits / frames,
        oracle_accuracy=float((answers == truths).mean()) if len(truths) else 0.0,
        special_rate=special / frames,
        cascade_rate=cascaded / max(special, 1),
        transitions=transitions,
        trained=trained,
        seconds=seconds / frames,
    )


def _compact_answer(confusion: Confusion, dominant: tuple[int, ...], truth: int, draw: NDArray[np.float64]) -> int:
    if truth not in dominant:
        return OTHER if draw[0] < confusion.a_out else dominant[int(draw[1] * len(dominant))]
    if draw[0] < confusion.a_in:
        return truth
    rest = [label for label in dominant if label != truth]
    return OTHER if draw[0] < confusion.a_in + confusion.e or not rest else rest[int(draw[1] * len(rest))]
