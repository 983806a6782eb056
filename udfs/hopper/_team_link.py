"""Link of a rank of a joint unit to the driver, which tells where the others are, and when one of them is gone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from udfs.gang import GangError
from udfs.hopper._messages import HOPPER, Apart, Meet, Met
from udfs.rpc import Caller, CallError, RefusedError

if TYPE_CHECKING:
    from udfs.rpc import Credentials

__all__ = ["TeamLink"]

_CALL_S = 30.0


class TeamLink:
    """Connection to the driver for the duration of a joint unit."""

    def __init__(self, worker: str, attempt: str, unit_id: str, driver: str, credentials: Credentials) -> None:
        self._sender = {"worker": worker, "attempt": attempt, "unit_id": unit_id}
        self._driver = Caller(driver, credentials, HOPPER)
        self._reason = ""
        self._closed = threading.Event()

    def exchange(self, message: str) -> list[str]:
        """Send a message to all ranks, and return those of all, in the order of the ranks.

        Raises
        ------
        GangError
            Another rank is gone, or the driver.
        """
        while True:
            try:
                reply = self._driver.call(Meet(**self._sender, message=message), timeout_s=_CALL_S)
            except (CallError, RefusedError) as error:
                raise GangError(f"the driver does not answer: {error}") from error
            if isinstance(reply, Apart):
                raise GangError(reply.reason)
            if isinstance(reply, Met):
                return list(reply.messages)

    def watch(self) -> None:
        """Ask the driver from now on, in a thread, whether another rank is gone."""
        threading.Thread(target=self._watch, name="team", daemon=True).start()

    def check(self) -> None:
        """Raise GangError if another rank is gone."""
        if self._reason:
            raise GangError(self._reason)

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        self._driver.close()

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                reply = self._driver.call(Meet(**self._sender), timeout_s=_CALL_S)
            except (CallError, RefusedError) as error:
                self._reason = f"the driver does not answer: {error}"
                return
            if isinstance(reply, Apart):
                self._reason = reply.reason
                return
