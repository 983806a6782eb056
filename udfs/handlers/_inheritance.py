"""Inheritance: a network begins with those weights of another one that fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["inherited_weights"]


def inherited_weights(
    initial: Mapping[str, NDArray[np.generic]], source: Mapping[str, NDArray[np.generic]]
) -> tuple[dict[str, NDArray[np.generic]], str]:
    """Return the weights of a network, with the values of another one where names and numbers of axes are equal.

    A tensor of another size takes over the part that both have, as wider layers do in Net2Net (Chen et al., 2016);
    unlike there, the rest keeps its initial values, so that outputs may change.

    Parameters
    ----------
    initial : mapping of str to array
        Initial weights by name.
    source : mapping of str to array
        Weights of the other network by name.

    Returns
    -------
    dict of str to array
        Arrays by name that have values of the other network, with the shapes and types of ``initial``.
    str
        Number of these tensors, such as ``"5 of 8 tensors, 2 of them in part"``.

    Examples
    --------
    >>> weights, summary = inherited_weights({"bias": np.zeros(3)}, {"bias": np.ones(2)})
    >>> weights["bias"].tolist(), summary
    ([1.0, 1.0, 0.0], '1 of 1 tensors, 1 of them in part')
    """
    weights: dict[str, NDArray[np.generic]] = {}
    parts = 0
    for name, value in initial.items():
        if name not in source or np.ndim(source[name]) != value.ndim:
            continue
        other = source[name]
        overlap = tuple(slice(min(sizes)) for sizes in zip(value.shape, other.shape, strict=True))
        weights[name] = np.array(value)
        weights[name][overlap] = other[overlap]
        parts += value.shape != other.shape
    summary = f"{len(weights)} of {len(initial)} tensors"
    return weights, f"{summary}, {parts} of them in part" if parts else summary
