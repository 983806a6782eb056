"""Answer of an engine: results of a table, and the rows that the model refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer", "Refusal", "RowReason", "explain_rows"]


class Answer(NamedTuple):
    """Results of a program for a table."""

    outputs: dict[str, Any]  # results as the library returns them: see optimizer.compiling.Output
    bad: NDArray[np.bool_]  # rows that the library refuses, of shape (rows,). Their results are undefined.
    reasons: list[str]  # reason for each rule that some row breaks


class Refusal(NamedTuple):
    """Cells of some rows that break one rule of a program."""

    reason: str
    cells: NDArray[np.bool_]  # of shape (rows, columns of the table that the rule checks)
    columns: list[int | None]  # column of the input behind each column of that table


class RowReason(NamedTuple):
    """Reason why a row is refused, and the columns that it is refused for."""

    text: str
    columns: tuple[str, ...]


_NAMED = 3  # columns in a message, at most


def explain_rows(refusals: Sequence[Refusal], names: Sequence[object], rows: int) -> list[RowReason]:
    """Return the reason why each of some rows is refused, with the names of the columns that break a rule.

    Parameters
    ----------
    refusals : sequence of Refusal
        What each rule refuses in the rows.
    names : sequence
        Names, or places, of the columns of the input.
    rows : int
        Number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> refusal = Refusal("an infinity, which Ridge does not take", np.array([[False, True]]), [0, 1])
    >>> explain_rows([refusal], ["age", "income"], 1)[0].text
    "an infinity, which Ridge does not take (column 'income')"
    """
    explained = []
    for row in range(rows):
        texts, blamed = [], dict[str, None]()
        for refusal in refusals:
            places = refusal.cells[row].nonzero()[0].tolist()
            if not places:
                continue
            columns = {refusal.columns[place] if place < len(refusal.columns) else None for place in places}
            known = [] if None in columns else sorted(column for column in columns if column is not None)
            texts.append(refusal.reason + _listed([repr(names[column]) for column in known]))
            blamed |= dict.fromkeys(str(names[column]) for column in known)
        explained.append(RowReason(" or ".join(texts), tuple(blamed)))
    return explained


def _listed(names: list[str]) -> str:
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f" (column{'s' * (len(names) > 1)} {', '.join(names[:_NAMED])}{more})"
