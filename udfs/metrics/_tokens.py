"""Metrics of taggers, which give each token of a row a class: shares of tokens, and entities in the BIO scheme."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from udfs.metrics._metric import Metric, MetricError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ENTITY_F1", "TOKEN_ACCURACY", "entity_f1"]

Weights = NDArray[np.float64] | None

_TOKEN_AXES = 2
_PREFIXES = ("B-", "I-")


def entity_f1(classes: Sequence[str] | None = None) -> Metric:
    """Make the metric ``"entity_f1"``: F1 over entities, of which type, beginning and end have to be right.

    Tokens whose label is below 0 (padding, special tokens, the later pieces of a word) are left out of predictions and
    labels before entities are read off them. An inside tag that continues no entity of its type begins one, as in
    CoNLL's own evaluation (Tjong Kim Sang and De Meulder 2003) and in seqeval.

    Parameters
    ----------
    classes : sequence of str, optional
        Tag of each class: ``"O"``, or ``"B-"`` or ``"I-"`` and a type. By default class 0 is outside of entities, and
        of each type follow the classes that begin and continue it: 1 and 2, 3 and 4, as
        :func:`cerebro_spark.data.bio_classes` orders them.

    Raises
    ------
    MetricError
        A tag is none of these.

    Examples
    --------
    >>> f1 = entity_f1(["B-person", "I-person", "O"])
    >>> labels = np.array([[0, 1, 2, -100], [2, 0, 2, -100]])
    >>> predicted = np.array([[0, 1, 2, 0], [2, 2, 2, 0]])
    >>> round(f1.result(f1.part(np.eye(3)[predicted], labels)), 3)  # one of two found, none wrong
    0.667
    """
    table = None if classes is None else _table(classes)

    def part(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
        return _counts(outputs, labels, weights, table)

    return Metric("entity_f1", part, _f1, larger_is_better=True, weighted=part)


def _table(classes: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the type of each class, 0 for none, and whether it begins an entity."""
    types: dict[str, int] = {}
    numbers, begins = [], []
    for tag in classes:
        if tag != "O" and tag[:2] not in _PREFIXES:
            raise MetricError(f'the tag {tag!r} is neither "O" nor "B-" or "I-" and a type: entity_f1 reads BIO tags')
        numbers.append(0 if tag == "O" else types.setdefault(tag[2:], len(types) + 1))
        begins.append(tag.startswith("B-"))
    return np.array(numbers, np.int64), np.array(begins, np.bool_)


def _tokens(outputs: NDArray[Any], labels: NDArray[Any], name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if labels.ndim != _TOKEN_AXES or outputs.ndim != _TOKEN_AXES + 1 or outputs.shape[:2] != labels.shape:
        raise MetricError(
            f"{name} is of a class a token: labels of shape (rows, tokens) and outputs of shape (rows, tokens, "
            f"classes), not {labels.shape} and {outputs.shape}"
        )
    return outputs.argmax(axis=-1), labels.astype(np.int64)


def _accuracy(outputs: NDArray[Any], labels: NDArray[Any], weights: Weights = None) -> NDArray[np.float64]:
    predicted, truth = _tokens(outputs, labels, "token_accuracy")
    tagged = truth >= 0
    counts = np.stack([((predicted == truth) & tagged).sum(axis=1), tagged.sum(axis=1)]).astype(np.float64)
    return counts.sum(axis=1) if weights is None else counts @ weights


def _share(sums: NDArray[np.float64]) -> float:
    return float(sums[0] / sums[1]) if sums[1] else float("nan")


def _counts(
    outputs: NDArray[Any],
    labels: NDArray[Any],
    weights: Weights,
    table: tuple[NDArray[np.int64], NDArray[np.bool_]] | None,
) -> NDArray[np.float64]:
    """Count entities that were found, that are none, and that were missed."""
    tokens, truth = _tokens(outputs, labels, "entity_f1")
    known = outputs.shape[-1] if table is None else len(table[0])
    most = max(int(truth.max(initial=0)), outputs.shape[-1] - 1)
    if most >= known:
        raise MetricError(f"entity_f1 knows {known} classes, and there is class {most}: name all in entity_f1([...])")
    if table is None:
        number = np.arange(known)
        table = (number + 1) // 2, number % 2 == 1
    rows, places = np.nonzero(truth >= 0)  # row by row
    first = np.ones(len(rows), np.bool_)
    first[1:] = rows[1:] != rows[:-1]
    predicted = _spans(tokens[rows, places], first, table)
    known_spans = _spans(truth[rows, places], first, table)
    starts, right = predicted >= 0, (predicted >= 0) & (predicted == known_spans)
    cells = (right, starts & ~right, (known_spans >= 0) & ~right)
    share = np.ones(len(rows)) if weights is None else weights[rows]
    return np.array([share[cell].sum() for cell in cells], np.float64)


def _spans(
    classes: NDArray[np.int64], first: NDArray[np.bool_], table: tuple[NDArray[np.int64], NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """Number the tokens that begin an entity by its type and end; other tokens get -1.

    ``first`` marks the first token of each row; ``table`` has the type of each class, and whether it begins an entity.
    """
    types = table[0][classes]
    new = first.copy()
    new[1:] |= types[1:] != types[:-1]
    new |= table[1][classes]
    # An entity ends before the next token that is new, whether that begins another one or none.
    borders = np.append(np.flatnonzero(new), len(classes))
    ends = borders[np.searchsorted(borders, np.arange(len(classes)), side="right")] if len(classes) else borders[:0]
    kinds = len(table[0]) + 1
    return np.where(new & (types > 0), ends * kinds + types, -1)


def _f1(sums: NDArray[np.float64]) -> float:
    right, wrong, missed = sums
    total = 2 * right + wrong + missed
    return float(2 * right / total) if total else 0.0


TOKEN_ACCURACY = Metric("token_accuracy", _accuracy, _share, larger_is_better=True, weighted=_accuracy)
"""Share of the tagged tokens whose class is right; those whose label is below 0 are not counted."""

ENTITY_F1 = entity_f1()
"""With classes in their usual order."""
