"""The long-lived task that a backend is, as Spark starts it."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from optimizer.serving import POLICIES
from udfs.handlers import register_framework
from udfs.node import keep_freed_memory, limit_threads, task_device
from udfs.rpc import Caller, Credentials, Endpoint, address_towards
from udfs.serving._backend import Backend
from udfs.serving._messages import ATTACHING, Attach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from udfs.handlers import Framework
    from udfs.serving._deliveries import Deliveries
    from udfs.serving._recipes import GroupRecipe

__all__ = ["BackendWorker"]

_CALL_S = 30.0

# Between threads of Python: a unit that arrives waits for as many turns of the arithmetic's thread.
_SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class BackendWorker:
    """One backend. Call it with ``mapInArrow`` on one row, in a job of its own.

    Parameters
    ----------
    worker : str
        Name of the backend in plans.
    pool : str
        Id of the server.
    driver : str
        Location of the driver's endpoint.
    credentials : Credentials
        The server's.
    recipes : mapping of str to GroupRecipe
    policy : str
        One of :data:`optimizer.serving.POLICIES`.
    threads : int
        CPU threads of a batch.
    device : str
    parallel : bool
        Whether groups run beside each other, instead of in turn.
    registered : tuple of Framework
        Frameworks that were registered by hand.
    spare : bool
        Whether the server starts without it.
    deliveries : Deliveries, optional
        Where the recipes are of what is deployed later.
    """

    worker: str
    pool: str
    driver: str
    credentials: Credentials = field(repr=False)
    recipes: Mapping[str, GroupRecipe] = field(repr=False)
    policy: str = "sliding"
    threads: int = 1
    device: str = "cpu"
    parallel: bool = False
    registered: tuple[Framework, ...] = ()
    spare: bool = False
    deliveries: Deliveries | None = None

    schema: ClassVar[str] = "worker string"
    """There are no rows: the driver hears of all by calls."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the driver says stop."""
        for _ in batches:
            pass
        keep_freed_memory()
        sys.setswitchinterval(_SWITCH_S)
        register_framework(*self.registered)
        limit_threads(self.threads)
        device = task_device(self.device)
        policy = POLICIES[self.policy]
        backend = Backend(
            self.recipes,
            policy,
            device=device,
            threads=self.threads,
            parallel=self.parallel,
            deliveries=self.deliveries,
        )
        with Endpoint(address_towards(self.driver), self.credentials, backend.protocol, backend.answer) as endpoint:
            caller = Caller(self.driver, self.credentials, ATTACHING)
            try:
                hello = Attach(self.worker, endpoint.location)
                if caller.call(hello, timeout_s=_CALL_S).wanted:
                    backend.serve()
            finally:
                caller.close()
        return iter(())
