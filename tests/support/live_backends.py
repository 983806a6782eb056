"""Backends of serving in this process, over real sockets, and a router to them."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.rpc import Credentials, Endpoint, new_credentials
from udfs.serving import (
    Admission,
    Backend,
    BackendSpec,
    FunctionRecipe,
    GroupRecipe,
    Link,
    LiveRouter,
    Offered,
    Placed,
    ServedModel,
    TensorReader,
    TensorSpec,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numpy.typing import NDArray

__all__ = ["SPEC", "Running", "latencies", "running", "served"]

SPEC = TensorSpec("x", "float32", (-1, 2))


def latencies(per_row_ms: float, most: int = 8) -> NDArray[np.float64]:
    return per_row_ms * np.arange(most + 1.0)


def served(name: str, slo_ms: float = 20_000.0) -> ServedModel:
    return ServedModel(name, "1", (SPEC,), (TensorSpec("y", "float32", (-1, 2)),), "opaque", slo_ms)


@dataclass
class Running:
    """Backends by name, their endpoints and links, and the router."""

    router: LiveRouter
    backends: dict[str, Backend]
    endpoints: dict[str, Endpoint]
    links: dict[str, Link]
    lost: list[str]

    def cut(self, name: str) -> None:
        """Lose a backend, as the router sees it."""
        self.endpoints[name].shutdown()


@contextmanager
def running(
    functions: Mapping[str, Callable[[Any], Any]],
    *names: str,
    slo_ms: float = 20_000.0,
    per_row_ms: float = 1.0,
    batch: int = 8,
    spec: BackendSpec | None = None,
) -> Iterator[Running]:
    """Serve functions of ``x`` by backends of these names, each all of them."""
    credentials: Credentials = new_credentials(encrypted=False)
    recipes = {
        name: GroupRecipe(name, {name: FunctionRecipe(function, TensorReader((SPEC,)))})
        for name, function in functions.items()
    }
    offers = [
        Offered(served(name, slo_ms), Admission(name, (SPEC,), {}), name, shared=False, least_ms=per_row_ms)
        for name in functions
    ]
    router = LiveRouter(offers)
    one = Running(router, {}, {}, {}, [])
    router.noticed = lambda link, _why: one.lost.append(link.name)
    threads = []
    for name in names:
        backend = Backend(recipes, spec)
        thread = threading.Thread(target=backend.serve, name=name, daemon=True)
        thread.start()
        threads.append(thread)
        endpoint = Endpoint("127.0.0.1", credentials, backend.protocol, backend.answer)
        link = Link(name, endpoint.location, credentials, router)
        link.start()
        router.attach(link)
        assert not link.adopt([Placed(group, batch, latencies(per_row_ms)) for group in recipes], 60.0)
        one.backends[name], one.endpoints[name], one.links[name] = backend, endpoint, link
    router.route({group: dict.fromkeys(names, 1.0) for group in recipes})
    try:
        yield one
    finally:
        router.stop()
        for backend in one.backends.values():
            backend.stop()
        for thread in threads:
            thread.join()
        for endpoint in one.endpoints.values():
            endpoint.shutdown()
