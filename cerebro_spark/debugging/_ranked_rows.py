"""Results that rank the rows of a table, the most suspicious first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ranked_rows"]


def ranked_rows(
    id_column: str,
    ids: NDArray[Any],
    columns: Mapping[str, Any],
    unreadable: Sequence[Any],
    *,
    whole_numbers: Sequence[str] = (),
) -> pd.DataFrame:
    """Sort rows by their scores, and add the unreadable ones without a rank.

    Parameters
    ----------
    id_column : str
        Name of the column of ids.
    ids : array, shape (rows,)
        Ids of the readable rows.
    columns : mapping of str to sequence
        Columns of the readable rows, with ``score``.
    unreadable : sequence
        Ids of the other rows.
    whole_numbers : sequence of str, optional
        Columns of whole numbers or nulls.

    Examples
    --------
    >>> ranked_rows("id", np.array([4, 5]), {"score": [0.9, 0.1], "is_outlier": [False, True]}, [7])
       id  score  is_outlier  rank
    0   5    0.1        True     1
    1   4    0.9       False     2
    2   7    NaN       False  <NA>
    """
    ranked = pd.DataFrame({id_column: ids, **columns}).sort_values(["score", id_column], ignore_index=True)
    ranked["rank"] = np.arange(1, len(ranked) + 1)
    kinds = dict.fromkeys([*whole_numbers, "rank"], "Int64")
    flags = {name: False for name in columns if name.startswith("is_")}
    rest = pd.DataFrame({id_column: sorted(unreadable)}).reindex(columns=ranked.columns)
    rest = rest.assign(**flags)
    parts = [part for part in (ranked, rest) if len(part)]
    return pd.concat([part.astype(kinds) for part in parts], ignore_index=True)
