"""Answer of an engine: results of a table, and the rows that the model refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer"]


class Answer(NamedTuple):
    """Results of a program for a table.

    Parameters
    ----------
    outputs : dict of str to array, or list of arrays
        Results as the library returns them: see :class:`optimizer.compiling.Output`.
    bad : bool array of shape (rows,)
        Rows that the library refuses. Their results are undefined.
    reasons : list of str
        Reason for each rule that some row breaks.
    """

    outputs: dict[str, Any]
    bad: NDArray[np.bool_]
    reasons: list[str]
