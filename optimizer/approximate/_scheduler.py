"""Online scheduler: serves each request by a policy, and keeps the budgets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

import numpy as np

from optimizer.approximate._cache import ModelCache
from optimizer.approximate._problem import usable_options
from optimizer.approximate._schedule import MemoryEvent, Schedule
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optimizer.approximate._problem import Budget, Problem, Task
    from optimizer.approximate._variant import Option

__all__ = ["Decision", "Policy", "Request", "Scheduler", "State", "replay"]


@dataclass(frozen=True, slots=True)
class Request:
    """A request as a policy sees it.

    Attributes
    ----------
    task : int
        Place of its task.
    now : float
        Time of arrival, in seconds since the start of the period.
    deadline : float
        Seconds from arrival to answer.
    connected : bool
        Whether the cloud can be reached.
    """

    task: int
    now: float
    deadline: float = math.inf
    connected: bool = True


class State:
    """Remaining budgets and memory of a device, which only the scheduler changes.

    Attributes
    ----------
    options : tuple of tuple of Option
        Usable options of each task.
    budget : Budget
        Budgets at the start.
    joules, dollars : float
        Remaining budgets.
    cache : ModelCache
        Resident options.
    blocked : set of Option
        Options that cannot serve now, which a runtime adds: those that failed to load, or whose load is in progress.
    """

    def __init__(self, tasks: Sequence[Task], budget: Budget, *, landlord: bool) -> None:
        self.options = usable_options(tasks, budget)
        self.budget = budget
        self.joules = budget.joules
        self.dollars = budget.dollars
        self.cache = ModelCache(budget.memory_bytes, landlord=landlord)
        self.blocked: set[Option] = set()

    def is_resident(self, option: Option) -> bool:
        """Return whether an option can run without a load."""
        return not option.memory_bytes or option in self.cache

    def admits(self, option: Option, request: Request) -> bool:
        """Return whether an option can serve a request within its deadline and the remaining budgets."""
        joules, seconds = option.joules, option.seconds
        if not self.is_resident(option):
            joules += option.load_joules
            seconds += option.load_seconds
        return (
            option not in self.blocked
            and joules <= self.joules
            and option.dollars <= self.dollars
            and seconds <= request.deadline
            and (request.connected or not option.needs_link)
        )


class Policy(Protocol):
    """Choice of the option for each request.

    Attributes
    ----------
    landlord : bool
        Eviction of the memory, see :class:`ModelCache`.
    """

    landlord: bool

    def choose(self, request: Request, state: State) -> Option | None:
        """Choose an option that the state admits, or None to leave the request."""
        ...

    def prefetch(self, request: Request, served: Option | None, state: State) -> Option | None:
        """Choose an option to load in the background after a request, served or not, or None."""
        ...


@dataclass(frozen=True, slots=True)
class Decision:
    """Answer of the scheduler to a request.

    Attributes
    ----------
    option : Option or None
        Option that serves the request; None if it is not served.
    evictions : tuple of Option
        Options to evict first.
    loaded : bool
        Whether the option must be loaded before it runs.
    prefetch : Option or None
        Option to load in the background afterwards.
    prefetch_evictions : tuple of Option
        Options to evict before that.
    """

    option: Option | None = None
    evictions: tuple[Option, ...] = ()
    loaded: bool = False
    prefetch: Option | None = None
    prefetch_evictions: tuple[Option, ...] = ()


class Scheduler:
    """Online scheduler of a device and its cloud.

    Parameters
    ----------
    tasks : sequence of Task
        Tasks with their catalogs.
    budget : Budget
        Budgets of the period, which decisions never exceed.
    policy : Policy
        Policy, such as one of ``POLICIES``.

    Raises
    ------
    InvalidArgumentError
        ``policy`` is no policy, such as a name.
    UnservableError
        The budgets cannot pay for one request of a task.

    Examples
    --------
    >>> from optimizer.approximate import Budget, Task, Variant
    >>> from optimizer.approximate import POLICIES
    >>> scene = Task("scene", (Variant("full", 0.9, 500, 5, 2), Variant("small", 0.8, 100, 1, 0.5)))
    >>> scheduler = Scheduler([scene], Budget(joules=10, memory_bytes=600, seconds=100), POLICIES["mcdnn"]())
    >>> [str(scheduler.decide("scene", now=second).option) for second in (1, 50)]
    ['small (device)', 'small (device)']
    """

    def __init__(self, tasks: Sequence[Task], budget: Budget, policy: Policy) -> None:
        if not hasattr(policy, "landlord"):
            raise InvalidArgumentError(
                f'policy must be an object of Policy, got {policy!r}. Write POLICIES["mcdnn"]() for that name'
            )
        self.policy = policy
        self.state = State(tasks, budget, landlord=policy.landlord)
        self._names = {task.name: place for place, task in enumerate(tasks)}
        self._now = -math.inf

    def decide(self, task: str, *, now: float, deadline: float = math.inf, connected: bool = True) -> Decision:
        """Decide on a request, and charge the budgets for it.

        Parameters
        ----------
        task : str
            Name of the task.
        now : float
            Seconds since the start of the period, not before the last request.
        deadline : float
            Seconds to the answer. Default: none.
        connected : bool
            Whether the cloud can be reached. Default True.

        Returns
        -------
        Decision
            Option to run, and changes of the memory.

        Raises
        ------
        InvalidArgumentError
            The task is unknown, or the time goes back.
        """
        if task not in self._names:
            raise InvalidArgumentError(f"task must be one of {', '.join(self._names)}, got {task!r}.")
        if not now >= self._now:
            raise InvalidArgumentError(f"now must be at least {self._now:g}, the last request's, got {now!r}.")
        self._now = now
        return self.serve(Request(self._names[task], now, deadline, connected))

    def serve(self, request: Request) -> Decision:
        """Decide on a request that is known to be valid."""
        state = self.state
        option = self.policy.choose(request, state)
        loaded = option is not None and not state.is_resident(option)
        evictions: tuple[Option, ...] = ()
        if option is not None:
            if loaded:
                evictions = self._load(option)
            elif option.memory_bytes:
                state.cache.renew(option)
            state.joules -= option.joules
            state.dollars -= option.dollars
        wanted = self.policy.prefetch(request, option, state)
        if wanted is None or state.is_resident(wanted) or wanted in state.blocked or wanted.load_joules > state.joules:
            return Decision(option, evictions, loaded)
        return Decision(option, evictions, loaded, wanted, self._load(wanted))

    def _load(self, option: Option) -> tuple[Option, ...]:
        """Load an option, and return what it evicts."""
        leaving = tuple(self.state.cache.victims(option.memory_bytes))
        for victim in leaving:
            self.state.cache.evict(victim)
        self.state.cache.insert(option)
        self.state.joules -= option.load_joules
        return leaving


def replay(problem: Problem, policy: Policy, method: str) -> Schedule:
    """Serve the trace of a problem by a policy."""
    scheduler = Scheduler(problem.tasks, problem.budget, policy)
    places = {option: place for place, option in enumerate(chain.from_iterable(scheduler.state.options))}
    trace = problem.trace
    choices = np.full(len(trace), -1)
    events = []
    rows = zip(
        trace.tasks.tolist(), trace.arrivals.tolist(), trace.deadlines.tolist(), trace.connected.tolist(), strict=True
    )
    for number, row in enumerate(rows):
        decision = scheduler.serve(Request(*row))
        if decision.option is not None:
            choices[number] = places[decision.option]
        events += [MemoryEvent(number, places[option], load=False) for option in decision.evictions]
        if decision.loaded:
            events.append(MemoryEvent(number, int(choices[number]), load=True, waited=True))
        if decision.prefetch is not None:
            events += [MemoryEvent(number + 1, places[option], load=False) for option in decision.prefetch_evictions]
            events.append(MemoryEvent(number + 1, places[decision.prefetch], load=True))
    return Schedule(problem, choices, tuple(events), method)
