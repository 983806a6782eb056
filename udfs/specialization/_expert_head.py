"""Specialised classifiers: linear heads over the features of a compact model."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from optimizer.specialization import OTHER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = [
    "Expertise",
    "HeadAnswers",
    "LinearHead",
    "ReweightedExpert",
    "TrainedExpert",
    "heads_from_bytes",
    "heads_to_bytes",
    "train_expert",
    "train_linear",
]

_STEPS = 60
"""Iterations of L-BFGS, at most. An expert must be trained within seconds."""


class LinearHead(NamedTuple):
    """Linear classifier of raw features: weights of shape (classes, features), biases of shape (classes,)."""

    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return logits of shape (rows, classes)."""
        logits: NDArray[np.float32] = features @ self.weight.T + self.bias
        return logits


class HeadAnswers(NamedTuple):
    """Answers of an expert: classes of the oracle or ``OTHER``, and probabilities of these answers."""

    labels: NDArray[np.int64]
    confidence: NDArray[np.float64]


class Expertise(Protocol):
    """Classifier of dominant classes and "other" over features of a compact model."""

    def answers(self, features: NDArray[np.float32]) -> HeadAnswers:
        """Classify features of shape (rows, features)."""


@dataclass(frozen=True, slots=True)
class TrainedExpert:
    """Linear classifier that was trained for dominant classes; its last output is "other".

    Parameters
    ----------
    head : LinearHead
        One output per dominant class, and one for all other classes.
    dominant : tuple of int
        Dominant classes, in the order of the outputs.
    """

    head: LinearHead = field(repr=False)
    dominant: tuple[int, ...]

    def answers(self, features: NDArray[np.float32]) -> HeadAnswers:
        """Classify features of shape (rows, features)."""
        return _best(_softmax(self.head.scores(features)), self.dominant)


@dataclass(frozen=True, slots=True)
class ReweightedExpert:
    """Classifier of all classes whose probabilities are weighted by the classes that a stream shows.

    If only the frequencies of the classes change, the new probabilities are the old ones times the ratio of the
    frequencies (Saerens, Latinne and Decaestecker 2002, equation 2.4). Nothing is trained.

    Parameters
    ----------
    head : LinearHead
        Classifier of all classes.
    dominant : tuple of int
        Dominant classes.
    skew : float
        Trust in the frequencies: the new ones are assumed to be a mixture of them, with this share, and of equal ones.
    frequencies : tuple of (int, float)
        Shares of classes in the stream, among them all dominant ones. Default: the dominant classes are equally
        frequent, and there are no others.
    """

    head: LinearHead = field(repr=False)
    dominant: tuple[int, ...]
    skew: float
    frequencies: tuple[tuple[int, float], ...] = ()

    def answers(self, features: NDArray[np.float32]) -> HeadAnswers:
        """Classify features of shape (rows, features)."""
        classes, dominant = len(self.head.bias), list(self.dominant)
        weights = np.full(classes, (1 - self.skew) / classes)
        for label, share in self.frequencies or [(label, 1 / len(dominant)) for label in dominant]:
            weights[label] += self.skew * share
        shares = _softmax(self.head.scores(features)) * weights
        shares /= shares.sum(axis=1, keepdims=True)
        inside = shares[:, dominant]
        return _best(np.concatenate([inside, 1 - inside.sum(axis=1, keepdims=True)], axis=1), self.dominant)


def _softmax(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    shares = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True, initial=-np.inf))
    normalised: NDArray[np.float64] = shares / shares.sum(axis=1, keepdims=True)
    return normalised


def _best(shares: NDArray[np.float64], dominant: tuple[int, ...]) -> HeadAnswers:
    """Return the most probable of the dominant classes and "other", which is last."""
    labels = np.array([*dominant, OTHER])[shares.argmax(axis=1)]
    return HeadAnswers(labels, shares.max(axis=1, initial=0.0))


def train_linear(
    features: NDArray[np.float32], labels: NDArray[np.int64], classes: int, weights: NDArray[np.float32] | None = None
) -> LinearHead:
    """Fit a softmax regression of features; see :func:`udfs.mlp.softmax_regression.fit_softmax`.

    Parameters
    ----------
    features : array of shape (rows, features)
        Features of the training rows.
    labels : array of shape (rows,)
        Classes from 0.
    classes : int
        Number of classes.
    weights : array of shape (rows,), optional
        Weight of each row. Default: 1.
    """
    import torch  # an optional extra

    from udfs.mlp.softmax_regression import fit_softmax  # (imports torch)

    rows, wanted = torch.from_numpy(np.ascontiguousarray(features, np.float32)), torch.from_numpy(labels)
    counts = None if weights is None else torch.from_numpy(weights.astype(np.float32))
    weight, bias = fit_softmax(rows, wanted, classes, steps=_STEPS, counts=counts)
    return LinearHead(weight.numpy(), bias.numpy())


def train_expert(
    features: NDArray[np.float32], labels: NDArray[np.int64], dominant: Sequence[int], skew: float
) -> TrainedExpert:
    """Fit the classifier of dominant classes and "other" (section 5.2).

    The thesis draws as many other rows as make the dominant ones a fixed share of the training set. All rows are used
    here, with weights that have the same effect.

    Parameters
    ----------
    features : array of shape (rows, features)
        Features of the compact model for the training rows.
    labels : array of shape (rows,)
        Classes of the oracle.
    dominant : sequence of int
        Dominant classes.
    skew : float
        Share of the dominant classes in the training set.

    Raises
    ------
    ValueError
        A dominant class has no training row, or all classes are dominant.
    """
    places = {label: place for place, label in enumerate(dominant)}
    missing = sorted(set(places) - set(labels.tolist()))
    if missing:
        raise ValueError(f"training rows must have all dominant classes, got none of {missing}")
    wanted = np.array([places.get(label, len(places)) for label in labels.tolist()], np.int64)
    is_other = wanted == len(places)
    if not is_other.any():
        raise ValueError("training rows must have other classes than the dominant ones, got none")
    counts = np.bincount(wanted, minlength=len(places) + 1)
    weights = np.where(is_other, (1 - skew) / counts[-1], skew / len(places) / counts[wanted])
    head = train_linear(features, wanted, len(places) + 1, weights.astype(np.float32))
    return TrainedExpert(head, tuple(dominant))


def heads_to_bytes(heads: Mapping[str, TrainedExpert]) -> bytes:
    """Return heads by name as bytes, for a state store."""
    arrays: dict[str, NDArray[np.float32] | NDArray[np.int64]] = {}
    for place, (name, expert) in enumerate(heads.items()):
        arrays[f"{place}/weight"], arrays[f"{place}/bias"] = expert.head
        arrays[f"{place}/dominant"] = np.array(expert.dominant, np.int64)
        arrays[f"{place}/name"] = np.frombuffer(name.encode(), np.uint8)  # type: ignore[assignment]
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return file.getvalue()


def heads_from_bytes(data: bytes) -> dict[str, TrainedExpert]:
    """Return what :func:`heads_to_bytes` wrote."""
    heads = {}
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        for place in range(len(arrays.files) // 4):
            head = LinearHead(arrays[f"{place}/weight"], arrays[f"{place}/bias"])
            name = arrays[f"{place}/name"].tobytes().decode()
            heads[name] = TrainedExpert(head, tuple(arrays[f"{place}/dominant"].tolist()))
    return heads
