"""Inference endpoint."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from udfs.serving import BadRequestError, NoSuchModelError, OverloadedError, TooLateError
from udfs.serving.http._answer_waiting import answer_or_give_up
from udfs.serving.http._body import json_length, read_body
from udfs.serving.http._errors import reason_of, refusal_of
from udfs.serving.http._infer_request import InferRequest, of_image, parse_request
from udfs.serving.http._infer_response import answer_of
from udfs.serving.http._model_lookup import find_model
from udfs.serving.http._traffic import IN_TIME, LATE

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

# Seconds after its deadline in which an answer is still sent, and counted as late.
_GRACE_S = 0.05

# Bytes below which work is done in the event loop: switching to a thread would take longer.
_SMALL = 1 << 16

_THREADS = 8

_T = TypeVar("_T")


class Inference:
    """Endpoint ``POST /v2/models/NAME[/versions/VERSION]/infer``; counts the result of each request."""

    def __init__(self, router: Router, traffic: Counts, limits: HttpLimits) -> None:
        self._router, self._traffic, self._limits = router, traffic, limits
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="front-end")

    def close(self) -> None:
        """Stop the threads and drop their queue."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, request: Request) -> Response:
        """Answer a request, or return the status of its error."""
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
                raise OverloadedError(f"{waiting} requests are already in flight. Try again later.")  # noqa: TRY301 - counted as others
            body = await read_body(request, self._limits)
            began = time.monotonic()
            response, timeout_s = await self._answered(request, body, model, began)
            result = IN_TIME if time.monotonic() - began <= timeout_s else LATE
        except Exception as error:  # noqa: BLE001 - the client gets a status for every error
            result = reason_of(error)
            return refusal_of(error, model)
        else:
            return response
        finally:
            self._traffic.ended(model, result, time.monotonic() - began)

    async def _answered(
        self, request: Request, body: bytes, model: ServedModel, began: float
    ) -> tuple[Response, float]:
        """Return the response, and the seconds that it was allowed to take."""
        parsed = await self._off_loop(len(body), partial(self._parsed, request, body, model))
        timeout_s = (model.slo_ms if parsed.timeout_ms is None else parsed.timeout_ms) / 1000
        try:
            outputs = await self._outputs(request, parsed, model, began + timeout_s)
        except NoSuchModelError:
            if "version" in request.path_params:
                raise
            # Another version has replaced this one; a request without a version is repeated with it.
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
                raise TooLateError(f"The deadline of {model.name} passed before the request was submitted.")
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
            raise BadRequestError(
                f"timeout must be at most {1000 * longest_ms:.0f} microseconds, got {1000 * parsed.timeout_ms:.0f}."
            )
        return parsed

    async def _off_loop(self, size: int, work: Callable[[], _T]) -> _T:
        if size < _SMALL:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _timeout_of_query(request: Request) -> float | None:
    said = request.query_params.get("timeout")
    if said is None:
        return None
    if not said.isascii() or not said.isdecimal() or len(said) > 18:
        raise BadRequestError(f"timeout must be a number of microseconds, got {said[:40]!r}.")
    return int(said) / 1000 or None
