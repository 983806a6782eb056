"""Series: the columns that order rows in time, and the way in which series are split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import choice_error, real, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Series"]

_SPLITS = ("subject", "time")


@dataclass(frozen=True, slots=True)
class Series:
    """Series of rows in time order, which shards keep whole.

    Without it rows are shuffled one by one. With it a series lies in a single shard, its rows in time order, and
    :class:`Windows` of its rows can be read.

    Parameters
    ----------
    series_by : sequence of str
        Columns that identify a series: integers, strings, booleans or dates.
    order_by : str
        Column with the time of a row: a number, date or timestamp. It has no value twice in a series.
    subject_by : sequence of str
        Columns that identify a subject, all of whose series are in one shard and one split. By default each series is
        a subject.
    split : {"subject", "time"}
        Validation rows: all rows of some subjects (``"subject"``, the default), or the last rows of each series
        (``"time"``).
    embargo : int, optional
        Rows left out between the training and the validation rows of a series with ``split="time"``: at least the
        length of the longest window, so that no training window is close to a validation window.
    validation_column : str, optional
        Boolean column that marks the validation rows, in place of a random choice of subjects.
    max_gap : float, optional
        Largest difference between the times of successive rows, in the unit of ``order_by`` (seconds for timestamps,
        days for dates). A series is cut at larger gaps, and no window crosses them. By default gaps do not count.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed, or contradicts another.

    Examples
    --------
    >>> Series(series_by=["subject", "day"], order_by="time", subject_by=["subject"]).subjects
    ('subject',)
    """

    series_by: Sequence[str]
    order_by: str
    subject_by: Sequence[str] = ()
    split: str = "subject"
    embargo: int | None = None
    validation_column: str | None = None
    max_gap: float | None = None

    def __post_init__(self) -> None:
        for argument, least in (("series_by", 1), ("subject_by", 0)):
            names = getattr(self, argument)
            if isinstance(names, str) or not isinstance(names, Sequence) or len(names) < least:
                raise InvalidArgumentError(f"{argument} must be a list of columns, got {names!r}. Write ['subject']")
            object.__setattr__(self, argument, tuple(names))
        if not isinstance(self.order_by, str):
            raise InvalidArgumentError(f"order_by must be the name of a column, got {self.order_by!r}.")
        self._check_split()
        if self.max_gap is not None:
            object.__setattr__(self, "max_gap", real("max_gap", self.max_gap, 0, above=True))

    def _check_split(self) -> None:
        if self.split not in _SPLITS:
            why = (
                " Windows overlap, so a random split has the same rows in training and validation windows, and the "
                "validation metrics are too good"
                if self.split in {"random", "row", "rows", "window", "windows"}
                else ""
            )
            raise InvalidArgumentError(choice_error("split", self.split, _SPLITS) + why)
        if self.split == "time":
            why = 'With split="time" it is the length of the longest window, in rows.'
            object.__setattr__(self, "embargo", whole("embargo", self.embargo, 1, why))
            if self.validation_column is not None:
                raise InvalidArgumentError(
                    f'validation_column must be None with split="time", got {self.validation_column!r}. Leave one out'
                )
        elif self.embargo is not None:
            raise InvalidArgumentError(
                f'embargo must be None with split="subject", whose training and validation rows are of different '
                f'subjects, got {self.embargo!r}. Set split="time"'
            )

    @property
    def subjects(self) -> tuple[str, ...]:
        """Columns that identify a subject."""
        return tuple(self.subject_by or self.series_by)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads, each once."""
        flags = () if self.validation_column is None else (self.validation_column,)
        return tuple(dict.fromkeys((*self.series_by, *self.subjects, self.order_by, *flags)))

    def to_dict(self) -> dict[str, Any]:
        """Convert for JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Series:
        """Read the dictionary of :meth:`to_dict`."""
        return cls(**content)

    def explain(self) -> str:
        """Describe it in a line."""
        subjects = f" of subjects by {', '.join(self.subjects)}" if self.subject_by else ""
        how = {
            "subject": "split by subject",
            "time": f"split by time with an embargo of {self.embargo} rows",
        }[self.split]
        if self.validation_column is not None:
            how = f"split by {self.validation_column}"
        return f"series by {', '.join(self.series_by)}{subjects} in the order of {self.order_by}, {how}"
