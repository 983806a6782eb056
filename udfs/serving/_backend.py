"""Backend: receives rows from the router, reads them in one thread, and runs batches in others."""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from optimizer.serving import POLICIES
from udfs.arrow import RowError
from udfs.node import FrozenHeap, SupervisedThread
from udfs.rpc import Limits, RefusedError
from udfs.serving._batch_scheduler import BatchScheduler, Variant, Waiting
from udfs.serving._messages import (
    SERVING,
    Adopt,
    Adopted,
    Answer,
    Collect,
    Noted,
    Results,
    Stop,
    Submit,
)
from udfs.serving._open_models import OpenModels, Row
from udfs.serving._outbox import Outbox
from udfs.serving._texts import to_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.rpc import Request
    from udfs.serving._batch_scheduler import Content
    from udfs.serving._deliveries import Deliveries
    from udfs.serving._messages import Placed
    from udfs.serving._open_models import OpenGroup
    from udfs.serving._recipes import GroupRecipe

__all__ = ["Backend", "BackendSpec"]

_LOG = logging.getLogger(__name__)

# Seconds that a collection waits for answers; the router counts a backend as lost after a longer silence.
_POLL_S = 0.5

# Seconds without a collection after which a backend ends: its router is gone.
_FORSAKEN_S = 60.0

# Milliseconds reserved for the answer to travel to the router, and the largest share of the remaining time.
_BACK_MS, _BACK_SHARE = 5.0, 0.1

_LONGEST_MESSAGE = 2_000

# Decoded contents kept for rows of other sessions with the same content.
_CONTENTS = 16


@dataclass(frozen=True, slots=True)
class BackendSpec:
    """Settings of a backend, the same for all backends of a server."""

    policy: str = "sliding"  # dispatch policy, a key of optimizer.serving.POLICIES
    threads: int = 1  # CPU threads of a batch
    device: str = "cpu"  # device that models run on
    parallel: bool = False  # run each group in a thread of its own instead of one batch after the other
    deliveries: Deliveries | None = None  # store in which the backend finds the recipes of groups deployed later


@dataclass(slots=True, eq=False)
class _WarmUp:
    """Batches of a sample record that a new group, or a variant of it, runs before its first request."""

    batches: list[tuple[OpenGroup, list[Row]]]
    done: threading.Event = field(default_factory=threading.Event)
    error: str = ""


class Backend:
    """Backend that serves groups of sessions until it is stopped. :class:`udfs.rpc.Endpoint` calls :meth:`answer`.

    Parameters
    ----------
    recipes : mapping of str to GroupRecipe
        Recipes of the groups that it may serve, by group.
    """

    protocol = SERVING

    def __init__(self, recipes: Mapping[str, GroupRecipe], spec: BackendSpec | None = None) -> None:
        self._spec = spec = spec or BackendSpec()
        self._recipes = dict(recipes)
        self._fetched: dict[str, str] = {}  # digests of the recipes that came from the store, by group
        self._models = OpenModels(spec.device, spec.threads)
        self._groups: dict[str, OpenGroup] = {}
        self._leaving: set[str] = set()
        self._scheduler = BatchScheduler(POLICIES[spec.policy])
        self._warming: list[_WarmUp] = []
        self._cold: dict[str, str] = {}  # errors of the groups' warm-ups, by group
        self._changed = threading.Condition()
        self._opening = threading.Lock()
        self._read_before: OrderedDict[tuple[str, str], dict[str, NDArray[Any]]] = OrderedDict()
        self._outbox: Outbox[Answer] = Outbox()
        self._heap = FrozenHeap()
        self._stopped = False
        self._runners: list[threading.Thread] = []
        self._running: dict[str, tuple[float, float]] = {}
        self._busy_so_far: dict[str, float] = defaultdict(float)  # milliseconds by group
        self._collected = time.monotonic()
        self._failure: BaseException | None = None
        self._reader = SupervisedThread(self._read, "reader", self._fail)

    def serve(self) -> None:
        """Run batches until :class:`Stop` comes, or no router has called for a minute.

        Raises
        ------
        RuntimeError
            A thread of the backend failed, so that another process must take its place.
        """
        self._reader.start()
        try:
            while self._warm_next() or (self._watch() if self._spec.parallel else self._run_next()):
                pass
        finally:
            with self._changed:
                # Without a router no Stop request came.
                self._stopped = True
                self._changed.notify_all()
                for warm_up in self._warming:
                    warm_up.done.set()
            self._heap.thaw()
        if self._failure is not None:
            # A thread that is inside a model may never end.
            raise RuntimeError("A thread of the backend failed.") from self._failure
        for runner in self._runners:
            runner.join()

    def answer(self, request: Request[Any]) -> Any:
        """Handle a request of :data:`SERVING`."""
        if isinstance(request, Collect):
            return self._collect(request)
        if isinstance(request, Submit):
            return self._submit(request)
        if isinstance(request, Adopt):
            return self._adopt(request.placements)
        if isinstance(request, Stop):
            self.stop()
            return Noted()
        raise RefusedError(f"A backend does not answer {type(request).__name__} requests.")

    def stop(self) -> None:
        """Stop after the running batch."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        """End the backend: a thread that it needs has failed."""
        self._failure = error
        self.stop()

    def _collect(self, request: Collect) -> Results:
        self._collected = time.monotonic()
        if request.check:
            self._outbox.revise(_sendable)
        answers, last = self._outbox.take(request.after, _POLL_S)
        self._collected = now = time.monotonic()
        with self._changed:
            since = min((since for since, _ in self._running.values()), default=now)
            running = 1000 * (now - since)
            pace, busy = dict(self._scheduler.pace), dict(self._busy_so_far)
            return Results(answers, last, self._scheduler.waiting, running, pace, busy)

    def _submit(self, request: Submit) -> Noted:
        now = _now_ms()
        absent = []
        contents = {(unit.group, unit.key): unit.inputs for unit in request.units if unit.key and unit.inputs}
        with self._changed:
            self._scheduler.cancel(request.cancelled)
            for unit in request.units:
                inputs = unit.inputs or contents.get((unit.group, unit.key))
                remaining = unit.remaining_ms - min(_BACK_MS, _BACK_SHARE * unit.remaining_ms)
                waiting = Waiting(unit.number, now + remaining, unit.session, unit.alone)
                # The unit with the content may have been one that cannot be sent.
                if inputs is None or not self._scheduler.put(unit.group, waiting, unit.key, inputs):
                    absent.append(unit)
            self._changed.notify_all()
        if absent:
            self._outbox.put(Answer(unit.number, "absent", "", {}) for unit in absent)
        return Noted()

    def _adopt(self, placements: Sequence[Placed]) -> Adopted:
        failures: dict[str, str] = {}
        with self._opening:
            before = list(self._groups.values())
            wanted = {placed.group: placed for placed in placements}
            for name, placed in wanted.items():
                try:
                    group = self._groups.get(name) or self._opened(placed)
                except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of a user's model is reported to the driver
                    _LOG.exception("%s could not be opened", name)
                    failures[name] = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
                    continue
                with self._changed:
                    new = name not in self._groups
                    self._groups[name] = group
                    self._scheduler.place(name, placed.batch, placed.latencies_ms.tolist(), _variants(placed))
                    if new and self._spec.parallel and not self._stopped:
                        self._start_runner(name, group)
                    self._changed.notify_all()
            with self._changed:
                self._leaving = set(self._groups) - set(wanted)
                self._changed.notify_all()
            self._close_left()
            if list(self._groups.values()) != before:
                del before
                self._heap.freeze()
            return Adopted(failures, {name: why for name, why in self._cold.items() if name in self._groups})

    def _opened(self, placed: Placed) -> OpenGroup:
        """Open a group and warm it with one row per session and one batch: the first runs are the slowest."""
        name = placed.group
        # A refused version may have had a recipe under the same name.
        if name not in self._recipes or self._fetched.get(name, placed.recipe) != placed.recipe:
            if self._spec.deliveries is None:
                raise RefusedError(f"Group {name!r} has no recipe on this backend, which has no store to read it from.")
            self._recipes[name] = self._spec.deliveries.fetch(placed.recipe)
            self._fetched[name] = placed.recipe
        recipe = self._recipes[name]
        group = self._models.open(recipe)
        if recipe.sample is None:
            return group
        sessions = list(recipe.members)
        warm_up = _WarmUp([])
        for place, batch in enumerate([each.batch for each in placed.variants] or [placed.batch]):
            variant = _variant(group, place)
            rows = [Row(session, "", variant.readers[session].read(recipe.sample)) for session in sessions]
            for count in dict.fromkeys((len(rows), batch)):
                warm_up.batches.append((variant, [rows[number % len(rows)] for number in range(count)]))
        # The serving thread runs them between two batches.
        with self._changed:
            self._warming.append(warm_up)
            self._changed.notify_all()
        while not warm_up.done.wait(_POLL_S):
            if self._stopped:
                break
        self._cold.pop(name, None)
        if warm_up.error:
            self._cold[name] = warm_up.error
        return group

    def _warm_next(self) -> bool:
        """Run one warm-up batch; return ``False`` if none waits."""
        with self._changed:
            if not self._warming or self._stopped:
                return False
            warm_up = self._warming[0]
        try:
            group, rows = warm_up.batches.pop(0)
            group.run(rows)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's model may fail on the sample row and work on others
            _LOG.warning("a model fails on a sample record: %s", error)
            warm_up.error = f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
        if not warm_up.batches:
            with self._changed:
                self._warming.remove(warm_up)
            warm_up.done.set()
        return True

    def _start_runner(self, name: str, group: OpenGroup) -> None:
        def run() -> None:
            while self._run_next(name, group):
                pass

        self._runners = [runner for runner in self._runners if runner.is_alive()]
        self._runners.append(SupervisedThread(run, f"runner of {name}", self._fail))
        self._runners[-1].start()

    def _close_left(self) -> None:
        """Close groups that the plan no longer has; their waiting rows return to the router."""
        with self._changed:
            returned = [unit for name in self._leaving for unit in self._scheduler.remove(name)]
            for name in self._leaving:
                del self._groups[name]
            self._leaving = set()
            self._changed.notify_all()
            self._models.retain([self._recipes[name] for name in self._groups])
        self._outbox.put(Answer(unit.number, "absent", "", {}) for unit in returned)

    def _read(self) -> None:
        """Read rows for the next batches, in a thread of its own."""
        while True:
            with self._changed:
                if self._stopped:
                    return
                now = _now_ms()
                unread = self._scheduler.unread(now, self._busy_ms(now))
                group = self._groups.get(unread.group)
                if unread.content is None and not unread.dropped:
                    self._changed.wait(_POLL_S)
                    continue
            if unread.dropped:
                self._outbox.put(_given_up(unread.dropped))
            if unread.content is not None:
                self._read_content(unread.group, group, unread.content)

    def _busy_ms(self, now_ms: float) -> dict[str, float]:
        """Return the expected milliseconds until each group can start its next batch."""
        left = {name: max(0.0, until - now_ms) for name, (_, until) in self._running.items()}
        return left if self._spec.parallel else dict.fromkeys(self._groups, max(left.values(), default=0.0))

    def _read_content(self, name: str, group: OpenGroup | None, content: Content) -> None:
        arrays = self._read_before.get((name, content.key)) if content.key else None
        failure, why = "", ""
        if group is None:
            failure = "absent"
        elif arrays is None:
            try:
                arrays = _variant(group, content.variant).readers[content.units[0].session].read(content.inputs)
            except RowError as error:
                failure, why = "bad", str(error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of a decoder or tokenizer concerns this row only
                failure, why = "bad", f"{type(error).__name__}: {error}"
        if content.key and arrays is not None:
            # Rows of other sessions may have the same content. Names of groups are unique.
            self._read_before[name, content.key] = arrays
            if len(self._read_before) > _CONTENTS:
                self._read_before.popitem(last=False)
        with self._changed:
            if not self._scheduler.read(name, content, arrays):
                failure = "absent"
            self._changed.notify_all()
        if failure:
            why = why[:_LONGEST_MESSAGE]
            self._outbox.put(Answer(unit.number, failure, why, {}) for unit in content.units)

    def _watch(self) -> bool:
        """Wait while runners serve the groups; return ``False`` at the end."""
        with self._changed:
            if not self._stopped and not self._warming:
                self._changed.wait(_POLL_S)
            return not self._stopped and not self._is_forsaken()

    def _is_forsaken(self) -> bool:
        if time.monotonic() - self._collected <= _FORSAKEN_S:
            return False
        _LOG.warning("no router has called for %.0f s, so this backend ends", _FORSAKEN_S)
        return True

    def _run_next(self, only: str | None = None, opened: OpenGroup | None = None) -> bool:
        """Run the next batch, of one group or in turn, or wait for one; return ``False`` at the end."""
        with self._changed:
            # A group that was closed and opened again has another runner.
            if self._stopped or (only is not None and self._groups.get(only) is not opened):
                return False
            now = _now_ms()
            due = self._scheduler.due(now, only)
            group = self._groups.get(due.group)
            if group is None and not due.dropped:
                patience = _POLL_S if due.wake_ms is None else min(_POLL_S, max(0.0, (due.wake_ms - now) / 1000))
                if only is not None or not self._warming:
                    self._changed.wait(patience)
                return only is not None or not self._is_forsaken()
            if due.batch:
                self._running[due.group] = (time.monotonic(), now + due.expected_ms)
                # The reader may prepare the next batch now.
                self._changed.notify_all()
        if due.dropped:
            self._outbox.put(_given_up(due.dropped))
        if group is not None:
            began = time.perf_counter()
            answers = _answers(group, due.batch, due.variant)
            took = 1000 * (time.perf_counter() - began)
            self._outbox.put(answers)
            with self._changed:
                self._running.pop(due.group, None)
                self._busy_so_far[due.group] += took
                self._scheduler.took(due.group, due.size, took, _now_ms(), due.variant)
        return True


def _given_up(units: Sequence[Waiting]) -> list[Answer]:
    return [
        Answer(unit.number, "overloaded", "More requests came than could be answered in time. Try again later.", {})
        for unit in units
    ]


def _variant(group: OpenGroup, place: int) -> OpenGroup:
    """Return a variant of a group; the first one is the group itself."""
    return group.variants[place] if place else group


def _variants(placed: Placed) -> list[Variant]:
    return [
        Variant(min(each.batch, len(each.latencies_ms) - 1), each.latencies_ms.tolist(), each.share)
        for each in placed.variants
    ]


def _answers(group: OpenGroup, batch: Sequence[tuple[Waiting, Row]], variant: int) -> list[Answer]:
    """Run a batch; if it fails, run each row alone, so that one row does not spoil the others."""
    try:
        rows = [row if row.variant == variant else group.read_again(row, variant) for _, row in batch]
        outputs = _variant(group, variant).run(rows)
        sent = [{name: to_wire(array) for name, array in row_outputs.items()} for row_outputs in outputs]
        return [Answer(unit.number, "", "", row_sent) for (unit, _), row_sent in zip(batch, sent, strict=True)]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of a user's model; a call of sys.exit too
        if len(batch) == 1:
            failure, why = ("bad", "") if isinstance(error, RowError) else ("failed", f"{type(error).__name__}: ")
            return [Answer(batch[0][0].number, failure, f"{why}{error}"[:_LONGEST_MESSAGE], {})]
        _LOG.warning("a batch of %d failed and is tried one at a time: %s", len(batch), error)
        return [answer for single in batch for answer in _answers(group, [single], variant)]


def _sendable(answer: Answer) -> Answer:
    """Return the answer, or an error in its place if it cannot be sent to the router and read there."""
    try:
        content = SERVING.encode(Results((answer,), 0, 0, 0.0, {}))
        SERVING.decode_reply(Collect(0), content)
        if len(content) > Limits().message_bytes:
            raise ValueError(f"The outputs must have at most {Limits().message_bytes:,} bytes, got {len(content):,}.")  # noqa: TRY301 - the answer of the row, as other errors
    except Exception as error:  # noqa: BLE001 - whatever a user's model returned
        why = f"The outputs cannot be sent: {type(error).__name__}: {error}"
        return Answer(answer.number, "failed", why[:_LONGEST_MESSAGE], {})
    return answer


def _now_ms() -> float:
    return 1000 * time.monotonic()
