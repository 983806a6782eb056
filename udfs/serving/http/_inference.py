"""The endpoint that has a model answer."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from udfs.serving import BadRequestError, NoSuchModelError, OverloadedError, TooLateError
from udfs.serving.http._answer import answer_of
from udfs.serving.http._body import json_length, read_body
from udfs.serving.http._errors import reason_of, refusal_of
from udfs.serving.http._models import find_model
from udfs.serving.http._request import InferRequest, of_image, parse_request
from udfs.serving.http._traffic import IN_TIME, LATE
from udfs.serving.http._waiting import answer_or_give_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future

    import numpy as np
    from starlette.requests import Request
    from starlette.responses import Response

    from udfs.serving import Router, ServedModel
    from udfs.serving.http._limits import HttpLimits
    from udfs.serving.http._traffic import Counts

__all__ = ["Inference"]

# An answer that comes so shortly after its deadline is still given, as late; with the rest of 100 ms for the reply.
_GRACE_S = 0.05

# Below so many bytes, going to a thread takes longer than the work.
_SMALL = 1 << 16

_THREADS = 8

_T = TypeVar("_T")


class Inference:
    """The endpoint ``POST /v2/models/NAME[/versions/VERSION]/infer``.

    Parameters
    ----------
    router : Router
    traffic : Counts
        Counts what becomes of each request.
    limits : HttpLimits
    """

    def __init__(self, router: Router, traffic: Counts, limits: HttpLimits) -> None:
        self._router, self._traffic, self._limits = router, traffic, limits
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="front-end")

    def close(self) -> None:
        """End the threads; what waits for one is not done."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, request: Request) -> Response:
        """Answer a request, with an error's status where there is no answer."""
        name, version = request.path_params["name"], request.path_params.get("version")
        try:
            model = find_model(self._router, name, version)
        except NoSuchModelError as error:
            self._traffic.refused(reason_of(error))
            return refusal_of(error)
        began, result = time.monotonic(), "stopped"
        waiting = self._traffic.in_flight
        self._traffic.began(model)
        try:
            if waiting >= self._limits.in_flight:
                raise OverloadedError(f"{waiting} requests are in flight already")  # noqa: TRY301 - counted as others
            body = await read_body(request, self._limits)
            began = time.monotonic()
            response, timeout_s = await self._answered(request, body, model, began)
            result = IN_TIME if time.monotonic() - began <= timeout_s else LATE
        except Exception as error:  # noqa: BLE001 - whatever it was, the client gets a status
            result = reason_of(error)
            return refusal_of(error, model)
        else:
            return response
        finally:
            self._traffic.ended(model, result, time.monotonic() - began)

    async def _answered(
        self, request: Request, body: bytes, model: ServedModel, began: float
    ) -> tuple[Response, float]:
        """Give the response, and how many seconds it was allowed to take."""
        parsed = await self._off_loop(len(body), partial(self._parsed, request, body, model))
        timeout_s = (model.slo_ms if parsed.timeout_ms is None else parsed.timeout_ms) / 1000
        try:
            outputs = await self._outputs(request, parsed, model, began + timeout_s)
        except NoSuchModelError:
            if "version" in request.path_params:
                raise
            # Another version has taken the place of this one since; who named none is not to notice.
            model = find_model(self._router, model.name)
            parsed = await self._off_loop(len(body), partial(self._parsed, request, body, model))
            outputs = await self._outputs(request, parsed, model, began + timeout_s)
        size = sum(array.nbytes for array in outputs.values())
        return await self._off_loop(size, partial(answer_of, outputs, parsed, model)), timeout_s

    async def _outputs(
        self, request: Request, parsed: InferRequest, model: ServedModel, deadline: float
    ) -> Mapping[str, np.ndarray]:
        def submit() -> Future[Mapping[str, np.ndarray]]:
            left_ms = 1000 * (deadline - time.monotonic())
            if left_ms <= 0:
                raise TooLateError(f"the deadline of {model.name} went by before a backend was asked")
            return self._router.submit(model.name, parsed.inputs, version=model.version, timeout_ms=left_ms)

        wait_s = deadline + _GRACE_S - time.monotonic()
        return await answer_or_give_up(submit, self._threads, request, wait_s)

    def _parsed(self, request: Request, body: bytes, model: ServedModel) -> InferRequest:
        if request.headers.get("content-type", "").lower().startswith("image/"):
            parsed = of_image(body, model, _timeout_of_query(request))
        else:
            parsed = parse_request(body, json_length(request), model)
        longest_ms = 1000 * self._limits.timeout_s
        if parsed.timeout_ms is not None and parsed.timeout_ms > longest_ms:
            raise BadRequestError(f"timeout is in microseconds, and {1000 * longest_ms:.0f} at most")
        return parsed

    async def _off_loop(self, size: int, work: Callable[[], _T]) -> _T:
        if size < _SMALL:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _timeout_of_query(request: Request) -> float | None:
    said = request.query_params.get("timeout")
    if said is None:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > 18:  # digits of an int64
        raise BadRequestError(f"timeout is a number of microseconds, not {said[:40]!r}")
    return int(said) / 1000 or None
