"""What becomes of rows whose image or text is bad, the same for everything that reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from udfs.images import ImageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.inference._text import TextError

__all__ = ["ERROR_POLICIES", "ErrorPolicy", "RowPolicy"]

ErrorPolicy = Literal["raise", "null", "drop"]
ERROR_POLICIES: tuple[str, ...] = get_args(ErrorPolicy)


@dataclass(frozen=True, slots=True)
class RowPolicy:
    """A bad row fails the job, gets nulls and its reason in a column, or is left out.

    Parameters
    ----------
    errors : {"raise", "null", "drop"}
    error_column : str
        The last column of the output, with ``errors="null"`` only: null for a good row.
    error : type
        Of the error, made of a reason and a detail.
    """

    errors: ErrorPolicy
    error_column: str = "image_error"
    error: type[ImageError | TextError] = ImageError

    def valid(self, reasons: Sequence[str | None], done: int, what: str) -> NDArray[np.bool_]:
        """Which rows are good.

        Parameters
        ----------
        reasons : sequence of str or None
            Per row, why it is bad.
        done : int
            Rows of the partition before this batch, for the message.
        what : str
            Names the column, for the message.

        Raises
        ------
        udfs.images.ImageError, udfs.inference.TextError
            A row is bad, and ``errors="raise"``: the one that :attr:`error` says.
        """
        valid = np.array([reason is None for reason in reasons], np.bool_)
        if self.errors == "raise" and not valid.all():
            row = int(np.argmin(valid))
            context = TaskContext.get()
            raise self.error(
                str(reasons[row]),
                f"row {done + row} of partition {context.partitionId() if context else 0}, column {what!r} "
                '(errors="null" keeps such rows and says why, errors="drop" leaves them out)',
            )
        return valid

    def emit(
        self, columns: Mapping[str, pa.Array], reasons: Sequence[str | None], valid: NDArray[np.bool_]
    ) -> pa.RecordBatch:
        """Put an output batch together; ``columns`` have a null for each bad row."""
        if self.errors == "null":
            columns = {**columns, self.error_column: pa.array(reasons, pa.string())}
        batch = pa.RecordBatch.from_pydict(dict(columns))
        return batch.filter(pa.array(valid)) if self.errors == "drop" else batch
