"""One front end for the tests of a module: in a thread, and in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from http_client import HttpClient
from numpy_router import NumpyRouter

from udfs.serving.http import FrontEnd, FrontEndProcesses, Gauge, HttpLimits

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = HttpLimits(body_bytes=1 << 20, in_flight=20)


@pytest.fixture(scope="module")
def router() -> Iterator[NumpyRouter]:
    router = NumpyRouter()
    yield router
    router.close()


@pytest.fixture(scope="module", params=["thread", "process"])
def front(router: NumpyRouter, request: pytest.FixtureRequest) -> Iterator[FrontEnd | FrontEndProcesses]:
    def gauges() -> list[Gauge]:
        return [
            Gauge("queue_length", 3, "Requests that wait.", {"model": "linear"}),
            Gauge("queue_length", 4, "Requests that wait.", {"model": "never"}),
        ]

    if request.param == "thread":
        with FrontEnd(router, port=0, limits=LIMITS, gauges=gauges) as front:
            yield front
    else:
        with FrontEndProcesses(router, 1, port=0, limits=LIMITS, gauges=gauges) as processes:
            yield processes


@pytest.fixture
def client(front: FrontEnd | FrontEndProcesses) -> Iterator[HttpClient]:
    client = HttpClient(front.port, front.token)
    yield client
    client.connection.close()
