"""Approximate model scheduling as a value: tasks with their variants, budgets and a trace of requests."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.approximate._errors import UnservableError
from optimizer.approximate._variant import Option, Variant, dominated
from optimizer.arguments import real, whole
from optimizer.errors import InvalidArgumentError
from optimizer.sizes import size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import ArrayLike, NDArray

__all__ = ["Budget", "Problem", "Task", "Trace", "usable_options"]

DAY_SECONDS = 36_000.0


@dataclass(frozen=True, slots=True)
class Task:
    """A classification task and its catalog, the variants of its model.

    Parameters
    ----------
    name : str
        Name of the task.
    variants : tuple of Variant
        At least one, each better than each other one in some measure.

    Raises
    ------
    InvalidArgumentError
        The catalog is empty, a name repeats, or a variant is less accurate than another one and saves nothing.
    """

    name: str
    variants: tuple[Variant, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgumentError(f"name must be a non-empty str, got {self.name!r}.")
        if not self.variants or not all(isinstance(variant, Variant) for variant in self.variants):
            raise InvalidArgumentError(
                f"variants of {self.name!r} must be at least one Variant, got {self.variants!r}."
            )
        _unique(f"names of the variants of {self.name!r}", [variant.name for variant in self.variants])
        for place, variant in enumerate(self.variants):
            for number, other in enumerate(self.variants):
                # Of equal variants only the later one is dominated.
                if number != place and dominated(variant, other) and not (place < number and dominated(other, variant)):
                    raise InvalidArgumentError(
                        f"variants of {self.name!r} must each be the best in some measure, got {variant.name!r}: "
                        f"{other.name!r} is as accurate, and is not larger, slower or dearer. Pass pareto(variants)."
                    )


@dataclass(frozen=True, slots=True)
class Budget:
    """Resources of a period: E, S and D of section 4.2.2.

    Parameters
    ----------
    joules : float
        Energy of the device, not negative.
    memory_bytes : int
        Memory of the device for models, not negative.
    dollars : float
        Money for the cloud. Default 0.
    seconds : float
        Length of the period. Default 36,000: a day of ten hours.

    Raises
    ------
    InvalidArgumentError
        A value is not valid.
    """

    joules: float
    memory_bytes: int
    dollars: float = 0.0
    seconds: float = DAY_SECONDS

    def __post_init__(self) -> None:
        real("joules", self.joules, 0)
        whole("memory_bytes", self.memory_bytes, 0)
        real("dollars", self.dollars, 0)
        real("seconds", self.seconds, 0, above=True)


@dataclass(frozen=True, eq=False, init=False)
class Trace:
    """Requests in the order of their arrival.

    Parameters
    ----------
    arrivals : array_like of float, shape (requests,)
        Seconds since the start of the period, strictly increasing.
    tasks : array_like of int, shape (requests,)
        Place of each request's task in the problem's tasks.
    deadlines : array_like of float, optional
        Seconds from arrival to answer, one number or one for each request. Default: no deadline. Equation 4.5 is
        ``np.diff(arrivals, append=np.inf)``, the time to the next request.
    connected : array_like of bool, optional
        Whether the cloud can be reached, one value or one for each request. Default True.

    Raises
    ------
    InvalidArgumentError
        The arrivals do not increase, or a value is not valid.
    """

    arrivals: NDArray[np.float64]
    tasks: NDArray[np.int64]
    deadlines: NDArray[np.float64]
    connected: NDArray[np.bool_]

    def __init__(
        self, arrivals: ArrayLike, tasks: ArrayLike, deadlines: ArrayLike = np.inf, connected: ArrayLike = True
    ) -> None:
        times = np.array(arrivals, np.float64)
        if times.ndim != 1 or not len(times) or not np.isfinite(times).all() or times[0] < 0:
            raise InvalidArgumentError(
                f"arrivals must be a sequence of at least one finite number of at least 0, got {arrivals!r}."
            )
        if (late := np.flatnonzero(np.diff(times) <= 0)).size:
            before, after = times[late[0]], times[late[0] + 1]
            raise InvalidArgumentError(
                f"arrivals must be strictly increasing seconds, got {after:g} after {before:g} at request "
                f"{late[0] + 1}. Sort the requests, and shift those that arrive together."
            )
        numbers = np.asarray(tasks)
        if numbers.shape != times.shape or not np.issubdtype(numbers.dtype, np.integer) or numbers.min() < 0:
            raise InvalidArgumentError(f"tasks must be {len(times)} whole numbers of at least 0, got {tasks!r}.")
        values: dict[str, NDArray[Any]] = {"arrivals": times, "tasks": numbers.astype(np.int64)}
        try:
            values["deadlines"] = np.broadcast_to(np.asarray(deadlines, np.float64), times.shape).copy()
            values["connected"] = np.broadcast_to(np.asarray(connected, np.bool_), times.shape).copy()
        except ValueError:
            raise InvalidArgumentError(
                f"deadlines and connected must be one value or {len(times)}, got shapes {np.shape(deadlines)} and "
                f"{np.shape(connected)}."
            ) from None
        if not (values["deadlines"] > 0).all():
            raise InvalidArgumentError(f"deadlines must be seconds above 0, got {np.nanmin(values['deadlines'])}.")
        for name, array in values.items():
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    def __len__(self) -> int:
        return len(self.arrivals)


@dataclass(frozen=True, eq=False)
class Problem:
    """An instance of approximate model scheduling (equations 4.1 to 4.6).

    Choose a variant and a place for each request, or leave it, and what the device's memory holds, such that the sum
    of the accuracies of the served requests is as large as possible within the budgets. Three equations are corrected:
    the memory of (4.4) is that of the resident variants (as printed it adds the size of every request, hits included),
    the energy of (4.2) includes sending, and the latency of (4.5) a load that the request waits for.

    Parameters
    ----------
    tasks : tuple of Task
        At least one task; names are unique.
    budget : Budget
        Resources of the period.
    trace : Trace
        Requests within the period.

    Raises
    ------
    InvalidArgumentError
        A name repeats, or the trace does not fit the tasks or the period.
    UnservableError
        The budgets cannot pay for one request of a task, or no variant can meet a request's deadline.

    Examples
    --------
    >>> scene = Task("scene", (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5)))
    >>> problem = Problem((scene,), Budget(joules=10, memory_bytes=600), Trace([1, 2, 3], [0, 0, 0]))
    >>> [str(option) for option in problem.options]
    ['full (device)', 'small (device)']
    """

    tasks: tuple[Task, ...]
    budget: Budget
    trace: Trace
    options: tuple[Option, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        by_task = usable_options(self.tasks, self.budget)
        object.__setattr__(self, "options", tuple(option for options in by_task for option in options))
        trace = self.trace
        if trace.tasks.max() >= len(self.tasks):
            raise InvalidArgumentError(f"tasks of the trace must be below {len(self.tasks)}, got {trace.tasks.max()}.")
        if trace.arrivals[-1] > self.budget.seconds:
            raise InvalidArgumentError(
                f"arrivals must be within the {self.budget.seconds:g} s of the budget, got {trace.arrivals[-1]:g}."
            )
        for task, options in enumerate(by_task):
            link = min(option.seconds for option in options)
            alone = min((option.seconds for option in options if not option.needs_link), default=0.0)
            # Without a link and without a variant for the device, a request is lost and no deadline is at fault.
            fastest = np.where(trace.connected, link, alone)
            if (late := np.flatnonzero((trace.tasks == task) & (trace.deadlines < fastest))).size:
                raise UnservableError(
                    f"deadlines of {self.tasks[task].name!r} must be at least {fastest[late[0]]:g} seconds, the "
                    f"fastest variant's, got {trace.deadlines[late[0]]:g} at request {late[0]}"
                    f"{f' and {late.size - 1} others' if late.size > 1 else ''}. Leave these requests out, or add a "
                    f"faster variant."
                )

    def options_for(self, task: int) -> range:
        """Return the places of a task's options in ``options``."""
        name = self.tasks[task].name
        places = [place for place, option in enumerate(self.options) if option.task == name]
        return range(places[0], places[-1] + 1)


def usable_options(tasks: Sequence[Task], budget: Budget) -> tuple[tuple[Option, ...], ...]:
    """List for each task the variants and places that fit the memory and whose first request the budgets pay for.

    Raises
    ------
    InvalidArgumentError
        There is no task, or a name repeats.
    UnservableError
        A task has none.
    """
    if not tasks:
        raise InvalidArgumentError("tasks must be at least one Task, got none.")
    _unique("names of tasks", [task.name for task in tasks])
    usable = []
    for task in tasks:
        options = [option for variant in task.variants for option in variant.options(task.name)]
        fits = tuple(
            option
            for option in options
            if option.memory_bytes <= budget.memory_bytes
            and option.load_joules + option.joules <= budget.joules
            and option.dollars <= budget.dollars
        )
        if not fits:
            least = min(options, key=lambda option: option.load_joules + option.joules)
            raise UnservableError(
                f"budget must pay for a request of {task.name!r}, got {budget.joules:g} J, "
                f"{size(budget.memory_bytes)} and ${budget.dollars:g}: {least} takes "
                f"{least.load_joules + least.joules:g} J, {size(least.memory_bytes)} and ${least.dollars:g}. Raise the "
                f"budget, or add a smaller variant."
            )
        usable.append(fits)
    return tuple(usable)


def _unique(what: str, names: Sequence[str]) -> None:
    """Refuse names that repeat."""
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise InvalidArgumentError(f"{what} must be unique, got {repeated[0]!r} more than once.")
