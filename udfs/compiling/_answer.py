"""Answer of an engine: results of a table, and the rows that the model refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer"]


class Answer(NamedTuple):
    """Results of a program for a table."""

    outputs: dict[str, Any]  # results as the library returns them: see optimizer.compiling.Output
    bad: NDArray[np.bool_]  # rows that the library refuses, of shape (rows,). Their results are undefined.
    reasons: list[str]  # reason for each rule that some row breaks
