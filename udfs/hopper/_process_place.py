"""Place of a run in the queue for its worker's process."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from udfs.handlers import settings_kept
from udfs.hopper._messages import Queued, Stop

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.hopper._process_turns import Turn
    from udfs.rpc import Caller

__all__ = ["Place"]

ResultT = TypeVar("ResultT")

_CALL_S = 30.0

# Between two words to the driver while others train here: so soon does a run hear that it is over.
_QUEUED_S = 1.0


class Place:
    """Place of a worker's attempt among those that share its process."""

    def __init__(self, turn: Turn, driver: Caller, worker: str, attempt: str) -> None:
        self.attempt = attempt
        self._turn = turn
        self._driver = driver
        self._worker = worker

    def take(self) -> bool:
        """Wait for the turn; ``False`` where the driver says meanwhile that the worker is to stop."""
        while not self._turn.take(self.attempt, _QUEUED_S):
            queued = Queued(worker=self._worker, attempt=self.attempt)
            if isinstance(self._driver.call(queued, timeout_s=_CALL_S), Stop):
                return False
        return True

    @property
    def has_turn(self) -> bool:
        """True if it has the turn."""
        return self._turn.holds(self.attempt)

    def share(self) -> None:
        """Release the turn if another run waits that has had less time."""
        if self._turn.wanted(self.attempt):
            self.give_up()

    def give_up(self) -> None:
        """Pass the turn to the other runs."""
        self._turn.give_up(self.attempt)

    def leave(self) -> None:
        """Take part no longer."""
        self._turn.leave(self.attempt)

    def call(self, function: Callable[[], ResultT]) -> ResultT:
        """Call a function in the thread that trains, and restore the settings of the process; in a turn alone."""

        def kept() -> ResultT:
            with settings_kept():
                return function()

        return self._turn.call(kept)

    @property
    def cpu_seconds(self) -> float:
        """Seconds of the CPU in its turns."""
        return self._turn.cpu_seconds(self.attempt)
