"""The long-lived task that a front end is, as Spark starts it."""

from __future__ import annotations

import sys
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from udfs.rpc import Caller, address_towards
from udfs.serving.http._address import listening, url_of
from udfs.serving.http._forwarding import FORWARDING, Arrive
from udfs.serving.http._remote_front_end import SWITCH_S, RemoteFrontEnd

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from udfs.rpc import Credentials
    from udfs.serving.http._limits import HttpLimits

__all__ = ["FrontEndWorker"]

_CALL_S = 30.0
_EVERYWHERE = "0.0.0.0"  # noqa: S104 - only compared with


@dataclass(frozen=True, slots=True)
class FrontEndWorker:
    """One front end. Call it with ``mapInArrow`` on one row, in a job of its own; its node needs the extra ``serving``.

    Parameters
    ----------
    worker : str
    pool : str
        Id of the server.
    driver : str
        Location of the driver's endpoint.
    credentials : Credentials
        The server's.
    host : str
        ``"0.0.0.0"`` for all interfaces of its node; else it listens at the one that leads to the driver.
    port : int
        0 takes a free one.
    limits : HttpLimits
    token : str or None
    spare : bool
        Whether the server starts without it.
    """

    worker: str
    pool: str
    driver: str
    credentials: Credentials = field(repr=False)
    host: str
    port: int
    limits: HttpLimits
    token: str | None = field(repr=False)
    spare: bool = False

    schema: ClassVar[str] = "worker string"
    """There are no rows: the driver hears of all by calls."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer HTTP until the driver is gone, or does not want it any more."""
        for _ in batches:
            pass
        sys.setswitchinterval(SWITCH_S)
        own = address_towards(self.driver)
        name = f"{self.worker}-{uuid.uuid4().hex[:12]}"
        with listening(_EVERYWHERE if self.host == _EVERYWHERE else own, self.port) as found:
            caller = Caller(self.driver, self.credentials, FORWARDING)
            try:
                hello = Arrive(self.worker, name, url_of(own, found.getsockname()[1]))
                wanted = caller.call(hello, timeout_s=_CALL_S).wanted
            finally:
                caller.close()
            if wanted:
                RemoteFrontEnd(
                    name, self.driver, self.credentials, limits=self.limits, token=self.token, started=lambda: None
                ).serve(found)
        return iter(())
