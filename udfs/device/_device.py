"""``VariantRunner``: serves requests with the variant and in the place that a scheduler chooses."""

from __future__ import annotations

import logging
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError
from udfs.device._answer import Answer
from udfs.device._errors import DeviceClosedError
from udfs.device._link import Link
from udfs.device._open_variant import open_variant
from udfs.device._refusals import refusal
from udfs.device._request import Request
from udfs.device._residents import Resident, Residents
from udfs.serving import BadRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from optimizer.approximate import Decision, Option, Scheduler
    from optimizer.graph import LayerGraph
    from udfs.device._cloud import Cloud
    from udfs.device._installed import Installed
    from udfs.device._open_variant import OpenVariant
    from udfs.device._suffix_client import SuffixClient

__all__ = ["VariantRunner"]

_LOG = logging.getLogger(__name__)
_LINK_THREADS = 4


class VariantRunner:
    """Runtime of a device.

    One thread decides and computes, one loads and evicts, and some wait for the cloud. A request for a variant whose
    load is in progress waits for it without delaying others, or runs another variant that is loaded.

    A request that the cloud does not answer goes back to the scheduler as if there were no link. A variant that cannot
    be loaded is not chosen again.

    Parameters
    ----------
    installed : mapping of str to Installed
        Networks by task.
    scheduler : Scheduler
        Scheduler of these tasks. Only the runner may use it from now on.
    cloud : Cloud, optional
        Client of the cloud for whole variants.
    suffix : SuffixClient, optional
        Client of the cloud for split variants.

    Attributes
    ----------
    failures : dict of tuple to Exception
        Errors of the variants that could not be loaded, by task and variant.
    """

    def __init__(
        self,
        installed: Mapping[str, Installed],
        scheduler: Scheduler,
        cloud: Cloud | None = None,
        suffix: SuffixClient | None = None,
    ) -> None:
        self._installed = installed
        self._scheduler = scheduler
        self._cloud = cloud
        self._suffix = suffix
        self._graphs: dict[tuple[str, str], LayerGraph] = {}
        self._residents = Residents(self._open_option)
        self._link = Link()
        self._compute = ThreadPoolExecutor(1, "variant-compute")
        self._uplink = ThreadPoolExecutor(_LINK_THREADS, "variant-uplink")
        self._started = time.monotonic()
        self._pending: set[Future[Answer]] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._prefetched: set[Option] = set()
        self._broken: set[Option] = set()
        self.failures: dict[tuple[str, str], BaseException] = {}

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks."""
        return tuple(self._installed)

    @property
    def connected(self) -> bool:
        """True if requests may use the cloud: there is a cloud, and no call has just failed."""
        return (self._cloud is not None or self._suffix is not None) and self._link.connected

    @property
    def joules(self) -> float:
        """Remaining energy."""
        return self._scheduler.state.joules

    @property
    def dollars(self) -> float:
        """Remaining money."""
        return self._scheduler.state.dollars

    @property
    def memory_bytes(self) -> int:
        """Resident bytes of the loaded variants."""
        return self._residents.bytes

    @property
    def peak_memory_bytes(self) -> int:
        """Largest value of `memory_bytes` so far."""
        return self._residents.peak_bytes

    def submit(self, task: str, image: Any, deadline_s: float = math.inf) -> Future[Answer]:
        """Submit a request, and return the future of its answer without waiting.

        Parameters
        ----------
        task : str
            Name of the task.
        image : bytes
            Encoded image.
        deadline_s : float
            Seconds to the answer. Default: no deadline.

        Raises
        ------
        DeviceClosedError
            The device is closed.
        """
        request = Request(task, image, deadline_s)
        request.future.set_running_or_notify_cancel()
        with self._lock:
            if self._closed:
                raise DeviceClosedError("The device is closed. Make a new one.")
            self._pending.add(request.future)
            request.future.add_done_callback(self._pending.discard)
            self._compute.submit(self._guarded, request, self._decide)
        return request.future

    def close(self) -> None:
        """Answer the requests that wait, end the threads, and free the memory."""
        with self._lock:
            self._closed = True
            pending = list(self._pending)
        wait(pending)
        self._uplink.shutdown()
        self._compute.shutdown()
        self._residents.close()

    def _guarded(self, request: Request, step: Callable[..., None], *arguments: Any) -> None:
        """Take a step of a request; an error ends it."""
        try:
            step(request, *arguments)
        except Exception as error:  # noqa: BLE001 - the caller of the request gets it
            request.future.set_exception(error)

    def _decide(self, request: Request) -> None:
        """Ask the scheduler, and begin to serve the request."""
        self._update_blocked()
        now = time.monotonic()
        connected = self.connected and not request.alone
        remaining = request.deadline_s - request.elapsed
        # After the cloud has failed, a late answer is better than none.
        for deadline in (remaining, math.inf) if request.alone else (remaining,):
            decision = self._scheduler.decide(
                request.task, now=now - self._started, deadline=deadline, connected=connected
            )
            resident = self._change_memory(decision)
            if decision.option is not None:
                self._serve(request, decision.option, resident, loaded=decision.loaded)
                return
        raise refusal(
            request.task,
            self._scheduler.state,
            remaining,
            self._link,
            self.failures,
            connected=connected,
            is_loaded=self._residents.is_loaded,
        )

    def _change_memory(self, decision: Decision) -> Resident | None:
        """Begin the loads and evictions, and return the resident option that serves the request."""
        option, resident = decision.option, None
        if option is not None and decision.loaded:
            self._residents.load(option, decision.evictions)
        if option is not None and option.memory_bytes:
            # Before the next load, which may evict it after this request.
            resident = self._residents.acquire(option)
        if decision.prefetch is not None:
            self._residents.load(decision.prefetch, decision.prefetch_evictions)
            self._prefetched.add(decision.prefetch)
        return resident

    def _serve(self, request: Request, option: Option, resident: Resident | None, *, loaded: bool) -> None:
        request.joules += option.joules + (option.load_joules if loaded else 0.0)
        request.dollars += option.dollars
        if resident is None:
            self._uplink.submit(self._guarded, request, self._ask, option, self._ask_cloud, request.image)
            return
        if resident.loaded.done():
            self._guarded(request, self._run, option, resident)
        else:
            resident.loaded.add_done_callback(
                lambda _: self._compute.submit(self._guarded, request, self._run, option, resident)
            )

    def _run(self, request: Request, option: Option, resident: Resident) -> None:
        """Run a variant, or its prefix."""
        try:
            try:
                variant = resident.loaded.result()
            except Exception as error:  # noqa: BLE001 - another variant answers, whatever is wrong with this one
                self._withdraw(option, error)
                self._decide(request)
                return
            cut = self._installed[option.task].cut(option.variant, option.place)
            if cut is None:
                self._answer(request, option, variant.scores(request.image))
                return
            tensors = variant.prefix(request.image, cut.cut)
        finally:
            self._residents.release(resident)
        self._uplink.submit(self._guarded, request, self._ask, option, self._ask_suffix, tensors)

    def _ask(self, request: Request, option: Option, call: Callable[..., NDArray[np.floating]], content: Any) -> None:
        """Wait for the cloud; if it fails, the device answers alone."""
        try:
            scores = call(option, content, request.cloud_seconds(self._reserve(request.task)))
        except BadRequestError as error:
            request.future.set_exception(error)
        except Exception as error:  # noqa: BLE001 - the device must not depend on what is wrong in the cloud
            _LOG.warning("The cloud did not answer a request of %s: %s", request.task, error)
            self._link.record_failure(error)
            request.alone = True
            self._compute.submit(self._guarded, request, self._decide)
        else:
            self._link.record_success()
            self._answer(request, option, scores)

    def _ask_cloud(self, option: Option, image: Any, seconds: float) -> NDArray[np.floating]:
        assert self._cloud is not None
        return self._cloud.scores(option.task, option.variant, image, seconds)

    def _ask_suffix(self, option: Option, tensors: Any, seconds: float) -> NDArray[np.floating]:
        assert self._suffix is not None
        return self._suffix.scores(option.task, option.variant, tensors, seconds)

    def _reserve(self, task: str) -> float:
        """Return the time of the fastest variant on the device."""
        state = self._scheduler.state
        options = [option for options in state.options for option in options if option.task == task]
        return min((option.seconds + option.load_seconds for option in options if not option.needs_link), default=0.0)

    def _answer(self, request: Request, option: Option, scores: NDArray[np.floating]) -> None:
        classes = self._installed[option.task].classes
        if len(classes) != len(scores):
            raise InvalidArgumentError(
                f"classes of {option.task!r} must be {len(scores)} labels, the scores of {option.variant!r}, got "
                f"{len(classes)}."
            )
        label = classes[int(np.argmax(scores))]
        answer = Answer(label, scores, option.variant, option.place, request.joules, request.dollars, request.elapsed)
        request.future.set_result(answer)

    def _open_option(self, option: Option) -> OpenVariant:
        installed, key = self._installed[option.task], (option.task, option.variant)
        cut = installed.cut(option.variant, option.place)
        variant = open_variant(
            installed.models[option.variant], graph=self._graphs.get(key), cut=None if cut is None else cut.cut
        )
        self._graphs[key] = variant.graph
        return variant

    def _update_blocked(self) -> None:
        """Exclude the variants whose load failed, and block those that load while another one can answer."""
        for option, error in self._residents.failed():
            self._withdraw(option, error)
        self._prefetched = {option for option in self._prefetched if self._residents.is_loading(option)}
        ready = {option.task for option in self._scheduler.state.cache if self._residents.is_loaded(option)}
        loading = {option for option in self._prefetched if option.task in ready}
        self._scheduler.state.blocked = self._broken | loading

    def _withdraw(self, option: Option, error: BaseException) -> None:
        """Exclude a variant that cannot be loaded, except in the cloud, from the next decision on."""
        key, state = (option.task, option.variant), self._scheduler.state
        if key not in self.failures:
            _LOG.warning("%s of %s cannot be loaded: %s", option.variant, option.task, error)
            self.failures[key] = error
        self._residents.forget(option)
        if option in state.cache:
            state.cache.evict(option)
        useless = {
            each
            for options in state.options
            for each in options
            if (each.task, each.variant) == key and each.place != "cloud"
        }
        self._broken |= useless
        state.options = tuple(tuple(each for each in options if each not in useless) for options in state.options)
