"""Ensemble of decision trees, in one form for all libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from optimizer.compiling._errors import ProgramError, UnsupportedOperatorError
from optimizer.compiling._operator import Operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from numpy.typing import NDArray

__all__ = ["Trees"]


@dataclass(frozen=True, eq=False, slots=True)
class Trees(Operator):
    """Sum of the leaves of trees, ``(base + sum of values) / divisor``.

    A node sends a number to the left if ``x <= threshold``, in the type of `threshold`, else to the right.
    `missing_left` decides for NaN. A library that compares by ``<`` has each threshold lowered to the next number
    below, which decides the same for each number of that type. Values are added one tree after the other, as
    the libraries do: with the same order come the same bits, and so the same class where two classes are all but equal.

    Nodes of all trees lie in one table. A leaf is its own left child, and so has depth 0 below it.

    Parameters
    ----------
    feature : int32 array of shape (nodes,)
        Column that a node looks at; 0 for a leaf.
    threshold : float32 or float64 array of shape (nodes,)
        Infinite for a leaf, so that every number stays.
    left, right : int32 arrays of shape (nodes,)
        Children in the table.
    missing_left : bool array of shape (nodes,)
        True if NaN goes to the left child; true for a leaf.
    value : float32 or float64 array of shape (nodes, values)
        Values that a leaf adds; sums are computed in this type.
    root : int32 array of shape (trees,)
        Node at the top of each tree.
    target : int32 array of shape (trees,)
        First column of the result to which a tree adds its values.
    base : array of shape (columns,)
        Start of the sum, in the type of `value`.
    divisor : float
        1 for boosting, the number of trees for the mean of a forest.
    features : int
        Columns of the input.
    missing : bool
        Whether NaN may come.

    Raises
    ------
    ProgramError
        The arrays are no trees: lengths differ, a child is outside of the table or comes twice, a column is not there.

    Examples
    --------
    One tree with one split:

    >>> import numpy as np
    >>> tree = Trees.of_nodes(
    ...     feature=[0, 0, 0], threshold=np.float64([0.5, 0, 0]), left=[1, -1, -1], right=[2, -1, -1],
    ...     missing_left=[False] * 3, value=[[0.0], [1.0], [2.0]], root=[0], target=[0], base=[0.0], divisor=1.0,
    ...     features=1, missing=False,
    ... )
    >>> tree.depths().tolist(), tree.width([1])
    ([1], 1)
    """

    feature: NDArray[np.int32]
    threshold: NDArray[Any]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    missing_left: NDArray[np.bool_]
    value: NDArray[Any]
    root: NDArray[np.int32]
    target: NDArray[np.int32]
    base: NDArray[Any]
    divisor: float
    features: int
    missing: bool

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        columns = (self.threshold, self.left, self.right, self.missing_left, self.value)
        if any(len(column) != nodes for column in columns) or len(self.root) != len(self.target):
            raise ProgramError(f"columns of the node table must have {nodes} entries, and root and target one length.")
        if self.threshold.dtype not in {np.dtype(np.float32), np.dtype(np.float64)}:
            raise ProgramError(f"threshold must be of type float32 or float64, got {self.threshold.dtype}.")
        if self.value.dtype != self.base.dtype:
            raise ProgramError(f"base must be of type {self.value.dtype}, as value, got {self.base.dtype}.")
        self._check_places(nodes)
        inner = self.left != np.arange(nodes)
        children = np.concatenate([self.left[inner], self.right[inner], self.root])
        if len(np.unique(children)) != len(children) or len(children) != nodes:
            raise ProgramError("left, right and root must name each node once.")

    def _check_places(self, nodes: int) -> None:
        bounds = (
            ("feature", self.feature, self.features),
            ("left", self.left, nodes),
            ("right", self.right, nodes),
            ("root", self.root, nodes),
            ("target", self.target, len(self.base) - self.value.shape[1] + 1),
        )
        for name, places, end in bounds:
            if len(places) and not 0 <= int(places.min()) <= int(places.max()) < end:
                raise ProgramError(
                    f"{name} must be between 0 and {end - 1}, got {int(places.min())} to {int(places.max())}."
                )

    @classmethod
    def of_nodes(  # noqa: PLR0913 - the columns of the table
        cls,
        *,
        feature: Iterable[int],
        threshold: NDArray[Any],
        left: Iterable[int],
        right: Iterable[int],
        missing_left: Iterable[bool],
        value: Any,
        root: Iterable[int],
        target: Iterable[int],
        base: Iterable[float],
        divisor: float,
        features: int,
        missing: bool,
        strict: bool = False,
    ) -> Trees:
        """Build from a table as libraries have it: a leaf has -1 for its children, and anything as threshold.

        Parameters
        ----------
        feature, threshold, left, right, missing_left, value, root, target, base, divisor, features, missing
            Arrays of the class; ``left`` and ``right`` are -1 at a leaf.
        strict : bool
            Whether the library sends ``x < threshold`` to the left, instead of ``x <= threshold``.

        Raises
        ------
        UnsupportedOperatorError
            A strict comparison with minus infinity.
        """
        left_of, right_of = (np.asarray(list(children), np.int32) for children in (left, right))
        roots = np.asarray(list(root), np.int32)
        here = np.arange(len(left_of), dtype=np.int32)
        leaf = left_of < 0
        sums = np.ascontiguousarray(value, np.float32 if getattr(value, "dtype", None) == np.float32 else np.float64)
        with np.errstate(over="ignore"):  # below the least number there is minus infinity
            limits = np.nextafter(threshold, threshold.dtype.type(-np.inf)) if strict else threshold
        if strict and np.isneginf(threshold[~leaf]).any():
            raise UnsupportedOperatorError("threshold must be above minus infinity for a strict comparison, got -inf.")
        return cls(
            feature=np.where(leaf, 0, np.asarray(list(feature), np.int32)).astype(np.int32),
            threshold=np.where(leaf, threshold.dtype.type(np.inf), limits).astype(threshold.dtype),
            left=np.where(leaf, here, left_of).astype(np.int32),
            right=np.where(leaf, here, right_of).astype(np.int32),
            missing_left=np.asarray(list(missing_left), np.bool_) | leaf,
            value=sums,
            root=roots,
            target=np.asarray(list(target), np.int32),
            base=np.asarray(list(base), sums.dtype),
            divisor=float(divisor),
            features=int(features),
            missing=bool(missing),
        )

    def width(self, inputs: Sequence[int]) -> int:
        """Return the number of columns of the result."""
        if inputs[0] != self.features:
            raise ProgramError(f"input of Trees must have {self.features} columns, got {inputs[0]}.")
        return len(self.base)

    def depths(self) -> NDArray[np.int64]:
        """Return the depth of each tree: the number of splits on its longest path.

        Raises
        ------
        ProgramError
            The children go round in a circle.
        """
        depth = np.zeros(len(self.root), np.int64)
        trees, at = np.arange(len(self.root)), self.root
        for level in range(len(self.feature) + 1):
            inner = self.left[at] != at
            if not inner.any():
                return depth
            trees, at = trees[inner], at[inner]
            depth[trees] = level + 1
            trees, at = np.concatenate([trees, trees]), np.concatenate([self.left[at], self.right[at]])
        raise ProgramError("left and right must form trees, got a node below itself.")

    def explain(self) -> str:
        """Describe the trees in a few words."""
        depths = self.depths()
        deep = f"depth {int(depths.min())} to {int(depths.max())}" if len(depths) else "none"
        return f"Trees({len(self.root)} trees, {deep}, {len(self.feature):,} nodes, {len(self.base)} columns)"
