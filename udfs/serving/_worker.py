"""Long-lived Spark task of a backend."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

from udfs.handlers import register_framework
from udfs.node import keep_freed_memory, limit_threads, task_device, worker_status
from udfs.rpc import Caller, Credentials, Endpoint, address_towards
from udfs.serving._backend import Backend
from udfs.serving._messages import ATTACHING, Attach

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow as pa

    from udfs.handlers import Framework
    from udfs.serving._backend import BackendSpec
    from udfs.serving._recipes import GroupRecipe

__all__ = ["BackendWorker"]

_CALL_S = 30.0

# Seconds between switches of Python threads: an arriving row waits for the thread that computes.
_SWITCH_S = 0.0005


@dataclass(frozen=True, slots=True)
class BackendWorker:
    """Task of one backend, called with ``mapInArrow`` on one row in a job of its own."""

    worker: str  # name of the backend in plans
    pool: str  # identifier of the job
    driver: str  # location of the driver's endpoint
    credentials: Credentials = field(repr=False)
    recipes: Mapping[str, GroupRecipe] = field(repr=False)  # recipes of the deployed groups
    spec: BackendSpec  # settings; the task resolves device
    registered: tuple[Framework, ...] = ()  # frameworks that the user registered
    spare: bool = False  # True if the server may start without this backend

    schema: ClassVar[str] = "worker string"
    """Schema of the result, which has no rows: the driver receives calls instead."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Serve until the driver sends Stop."""
        for _ in batches:
            pass
        keep_freed_memory()
        sys.setswitchinterval(_SWITCH_S)
        register_framework(*self.registered)
        limit_threads(self.spec.threads)
        backend = Backend(self.recipes, replace(self.spec, device=task_device(self.spec.device)))
        with Endpoint(address_towards(self.driver), self.credentials, backend.protocol, backend.answer) as endpoint:
            caller, status = Caller(self.driver, self.credentials, ATTACHING), worker_status()
            status.begin("serving")
            try:
                hello = Attach(self.worker, endpoint.location)
                if caller.call(hello, timeout_s=_CALL_S).wanted:
                    backend.serve()
            finally:
                status.end()
                caller.close()
        return iter(())
