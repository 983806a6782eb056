"""Direction of a scheduler that follows the metric of an epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.training import TrainerError

if TYPE_CHECKING:
    from udfs.training import Session

__all__ = ["check_metric_mode"]


def check_metric_mode(session: Session, *, larger_is_better: bool | None) -> None:
    """Raise TrainerError if a session's scheduler follows a metric in the other direction than the search.

    Parameters
    ----------
    session : Session
        Session with the scheduler.
    larger_is_better : bool or None
        Direction of the metric of the search. If it is ``None``, nothing is checked.
    """
    mode = getattr(session, "metric_mode", None)
    if mode is None or larger_is_better is None:
        return
    wanted = "max" if larger_is_better else "min"
    if mode != wanted:
        raise TrainerError(
            f"mode of the scheduler must be {wanted!r}, the direction of the metric that decides in the search, got "
            f"{mode!r}: the scheduler steps with that metric after each epoch"
        )
