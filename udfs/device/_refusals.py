"""Errors of requests that the scheduler does not serve."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optimizer.approximate import UnservableError
from udfs.device._errors import NoLinkError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from optimizer.approximate import Option, State
    from udfs.device._link import Link

__all__ = ["refusal"]


def refusal(
    task: str,
    state: State,
    remaining_s: float,
    link: Link,
    failures: Mapping[tuple[str, str], BaseException],
    *,
    connected: bool,
    is_loaded: Callable[[Option], bool],
) -> Exception:
    """Return the reason why no option serves a request.

    Parameters
    ----------
    task : str
        Name of the task.
    state : State
        Remaining budgets and memory.
    remaining_s : float
        Seconds to the deadline.
    link : Link
        Link to the cloud.
    failures : mapping
        Errors of the variants that could not be loaded, by task and variant.
    connected : bool
        Whether the request could use the cloud.
    is_loaded : callable
        Tells whether an option is in memory.
    """
    options = [option for options in state.options for option in options if option.task == task]
    reachable = [option for option in options if connected or not option.needs_link]
    broken = [f"{variant}: {error}" for (name, variant), error in failures.items() if name == task]
    if not reachable and options:
        reason = f" ({link.error})" if link.error else ""
        return NoLinkError(
            f"A request of {task!r} needs the cloud, which cannot be reached{reason}. Restore the link, or install a "
            f"variant that fits the device."
        )
    if not reachable:
        return UnservableError(f"A variant of {task!r} must be loadable, got {'; '.join(broken)}. Repair the files.")
    waits = {option: option.seconds + (0.0 if is_loaded(option) else option.load_seconds) for option in reachable}
    if (fastest := min(waits.values())) > remaining_s:
        return UnservableError(
            f"deadline_s of {task!r} must leave at least {fastest:.3g} seconds, the fastest variant's with its load, "
            f"got {remaining_s:.3g} after the wait for other requests. Allow more time, or install a faster variant."
        )
    least = min(reachable, key=lambda option: option.joules)
    return UnservableError(
        f"A request of {task!r} must fit the remaining budgets of {state.joules:.4g} J and ${state.dollars:.4g}, which "
        f"pay for fewer requests than arrive: {least} takes {least.joules:.4g} J and ${least.dollars:.4g}. Raise the "
        f"budgets, or send fewer requests."
    )
