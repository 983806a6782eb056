"""LightGBM's model text: what a Booster writes, and ``Booster.save_model``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["ModelText", "TextTree"]


@dataclass(frozen=True, eq=False, slots=True)
class TextTree:
    """One tree, as the text has it: a child below zero is the complement of a leaf.

    Parameters
    ----------
    feature, threshold, decision, left, right : arrays of shape (splits,)
        `decision` holds bits: 1 for a split by categories, 2 for missing to the left, the type of missing times 4.
    value : float64 array of shape (leaves,)
    categories : list of (tuple of int)
        Members of each set; a split by categories has the set's place for its threshold.
    constant : float64 array of shape (leaves,), or None
        Of linear leaves.
    terms : list of (tuple of (int, float))
        Columns and weights of each linear leaf.
    """

    feature: NDArray[np.int64]
    threshold: NDArray[np.float64]
    decision: NDArray[np.int64]
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    value: NDArray[np.float64]
    categories: list[tuple[int, ...]]
    constant: NDArray[np.float64] | None
    terms: list[tuple[tuple[int, float], ...]]


@dataclass(frozen=True, eq=False, slots=True)
class ModelText:
    """A model of LightGBM, read from its text. Data: nothing in it is run.

    Parameters
    ----------
    n_features_in_ : int
    names : tuple of str or None
        Of the columns, where they were given.
    objective : tuple of str
        Its name, then its options, as ``("binary", "sigmoid:1")``.
    columns : int
        Trees of an iteration: a column of scores each.
    averaged : bool
        Whether the result is a mean, as of random forests.
    trees : list of TextTree
    categorical : tuple of int
        Columns that are split by categories.
    pandas : list or None
        Categories of the columns that were pandas' categoricals.
    """

    n_features_in_: int
    names: tuple[str, ...] | None
    objective: tuple[str, ...]
    columns: int
    averaged: bool
    trees: list[TextTree]
    categorical: tuple[int, ...]
    pandas: list[Any] | None

    @property
    def feature_names_in_(self) -> tuple[str, ...] | None:
        """Names of the columns."""
        return self.names

    @classmethod
    def parse(cls, text: str) -> ModelText:
        """Read the text.

        Raises
        ------
        UnsupportedOperatorError
            It is no model of LightGBM, is cut off, or has another layout.
        """
        head, *blocks = text.split("\nTree=")
        if not head.startswith("tree\n") or not text.count("\nend of trees"):
            raise UnsupportedOperatorError("not a model text of LightGBM, or cut off: it has no 'end of trees'")
        facts = _facts(head)
        last = blocks.pop().split("\nend of trees")[0] if blocks else ""
        try:
            width = int(facts["max_feature_idx"]) + 1
            names = tuple(facts["feature_names"].split(" "))
            return cls(
                width,
                None if names == tuple(f"Column_{place}" for place in range(width)) else names,
                tuple(facts.get("objective", "").split()),
                int(facts["num_tree_per_iteration"]),
                "average_output" in facts,
                [_tree(_facts(block)) for block in (*blocks, *([last] if last else []))],
                _categorical(text),
                _pandas(text),
            )
        except (KeyError, ValueError, IndexError) as error:
            raise UnsupportedOperatorError(f"a model text of LightGBM that cannot be read: {error!r}") from error


def _facts(block: str) -> dict[str, str]:
    return {name: value for name, _, value in (line.partition("=") for line in block.split("\n"))}


def _tree(facts: Mapping[str, str]) -> TextTree:
    leaves = int(facts["num_leaves"])
    value = _numbers(facts, "leaf_value", leaves)
    splits = leaves - 1
    linear = facts.get("is_linear", "0") == "1"
    return TextTree(
        feature=_numbers(facts, "split_feature", splits).astype(np.int64),
        threshold=_numbers(facts, "threshold", splits),
        decision=_numbers(facts, "decision_type", splits).astype(np.int64),
        left=_numbers(facts, "left_child", splits).astype(np.int64),
        right=_numbers(facts, "right_child", splits).astype(np.int64),
        value=value,
        categories=list(_sets(facts)),
        constant=_numbers(facts, "leaf_const", leaves) if linear else None,
        terms=list(_terms(facts, leaves)) if linear else [],
    )


def _numbers(facts: Mapping[str, str], name: str, count: int) -> NDArray[np.float64]:
    if not count:
        return np.zeros(0)
    found = np.array([float(one) for one in facts[name].split()])
    if len(found) != count:
        raise ValueError(f"{name} has {len(found)} numbers, not {count}")
    return found


def _sets(facts: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
    if not int(facts.get("num_cat", "0")):
        return
    words = [int(word) for word in facts["cat_threshold"].split()]
    ends = [int(end) for end in facts["cat_boundaries"].split()]
    for start, end in pairwise(ends):
        yield tuple(
            place * 32 + bit for place, word in enumerate(words[start:end]) for bit in range(32) if word >> bit & 1
        )


def _terms(facts: Mapping[str, str], leaves: int) -> Iterator[tuple[tuple[int, float], ...]]:
    counts = _numbers(facts, "num_features", leaves).astype(int)
    total = int(counts.sum())
    columns = _numbers(facts, "leaf_features", total).astype(int)
    weights = _numbers(facts, "leaf_coeff", total)
    pairs = list(zip(columns.tolist(), weights.tolist(), strict=True))
    ends = np.cumsum(counts)
    for count, end in zip(counts, ends, strict=True):
        yield tuple(pairs[end - count : end])


def _categorical(text: str) -> tuple[int, ...]:
    found = re.search(r"^\[categorical_feature: ([\d,]+)\]$", text, re.MULTILINE)
    return tuple(sorted(int(place) for place in found[1].split(","))) if found else ()


def _pandas(text: str) -> list[Any] | None:
    at = text.rfind("\npandas_categorical:")
    if at < 0:
        return None
    found: list[Any] | None = json.loads(text[at + 1 :].partition(":")[2].strip())
    return found
