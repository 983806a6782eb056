"""The hopper's messages: each arrives as it was sent, and a change of one changes the version."""

from __future__ import annotations

import hashlib
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from optimizer.hybrids import Measured
from udfs import hopper
from udfs.hopper import (
    HOPPER,
    POOL,
    Abort,
    Acknowledged,
    Apart,
    AskRuns,
    Beat,
    CheckpointFailed,
    CheckpointStored,
    Close,
    Ended,
    EvaluatedMember,
    EvaluateReport,
    EvaluateUnit,
    Hello,
    JointReport,
    JointUnit,
    Meet,
    Member,
    MemberFailure,
    Met,
    NextUnit,
    Noted,
    Obsolete,
    PooledRun,
    Printed,
    Queued,
    Record,
    Runs,
    ServiceEnded,
    ShardFailed,
    SourceState,
    Stop,
    TrainedMember,
    TrainReport,
    TrainUnit,
    UnitFailure,
    Wait,
    Welcome,
)

if TYPE_CHECKING:
    from udfs.rpc import Request

SENDER = {"worker": "w0", "attempt": "a"}
ORDERS: dict[str, Any] = {"drop": (("c0", 3),), "holds": (0, 2)}
UNIT: dict[str, Any] = ORDERS | {
    "unit_id": "train c1 #4",
    "partition": 2,
    "loads": ("a3f0", "77c1"),
}
MEMBER: dict[str, Any] = {
    "trial_id": "c1",
    "params": {"lr": 0.1, "layers": [8, 8], "name": None},
    "version": 1,
    "digest": "abc",
    "peer": "tcp://10.0.0.1:80",
}
CLONE = Member(**MEMBER, source=SourceState("c0", 4, "def"))
TRAINED = Member(**MEMBER, record=Record("c1", 1, "abc", ((0, 2),), {"loss": [1.0, 2.0]}))
DONE: dict[str, Any] = {"trial_id": "c1", "seconds": 1.5, "fetched_bytes": 8}
FAILED = MemberFailure(trial_id="c2", reason="diverged", traceback="inf")
PRINTED = Printed("c1", "[train c1]\na step\x00\ufffd\n", 3, "the end")
MEASURED = Measured(8, 4, 0.1, 0.05, 100, 300, 0.01, 0.001, 2)
JOINT: dict[str, Any] = {"mode": "auto", "averages": True, "rank": 1, "shares": ((0, 2), (1,)), "configurations": 1}
SHARED = JointReport(
    unit_id="x",
    seconds=1.5,
    fetched_bytes=8,
    exchanged_bytes=16.0,
    trained=TrainedMember(**DONE, sums={}, digest="d", checkpoint_bytes=9),
)
NEXT = NextUnit(**SENDER, report=None)
HELLO = Hello(**SENDER, location="tcp://h:1", host="h", memory_bytes=1 << 40, shard_bytes=3)
STORED = CheckpointStored(**SENDER, trial_id="c0", version=3, digest="abc", seconds=0.5, dropped=("c1", "c2"))


@pytest.mark.parametrize(
    "request_",
    [
        HELLO,
        NEXT,
        NextUnit(**SENDER, report=UnitFailure(unit_id="x", reason="hop", traceback="gone")),
        NextUnit(**SENDER, report=EvaluateReport(unit_id="x", members=(EvaluatedMember(**DONE, sums={}), FAILED))),
        NextUnit(
            **SENDER,
            report=TrainReport(
                unit_id="x", members=(FAILED, TrainedMember(**DONE, sums={}, digest="d", checkpoint_bytes=9))
            ),
        ),
        NextUnit(**SENDER, report=SHARED),
        NextUnit(**SENDER, report=replace(SHARED, trained=None, measured=MEASURED, declined="slow")),
        Meet(**SENDER, unit_id="x", message="a"),
        NextUnit(**SENDER, printed=PRINTED, report=None, takes=False),
        Queued(**SENDER),
        Beat(**SENDER),
        Ended(**SENDER, printed=PRINTED),
        Ended(**SENDER, printed=None),
        STORED,
        CheckpointFailed(worker="w0", trial_id="c0", error="disk full"),
        ShardFailed(worker="w0", error="a flipped bit"),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_request_arrives_as_it_was_sent(request_: Request[Any]) -> None:
    assert HOPPER.decode_request(HOPPER.encode(request_)) == request_


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (HELLO, Welcome()),
        (HELLO, Stop()),
        (NEXT, Stop()),
        (NEXT, Wait(**ORDERS)),
        (NEXT, EvaluateUnit(**UNIT, members=(Member(**MEMBER), CLONE))),
        (NEXT, TrainUnit(**UNIT, members=(TRAINED, TRAINED), epoch=1, ends_epoch=True)),
        (NEXT, JointUnit(**UNIT, **JOINT, members=(TRAINED,), epoch=1, ends_epoch=True)),
        (Meet(**SENDER, unit_id="x"), Met(("a", "b"))),
        (Meet(**SENDER, unit_id="x"), Apart("gone")),
        (Queued(**SENDER), Acknowledged()),
        (Queued(**SENDER), Stop()),
        (Beat(**SENDER), Acknowledged()),
        (Beat(**SENDER), Abort()),
        (STORED, Acknowledged()),
        (STORED, Obsolete()),
        (CheckpointFailed(worker="w0", trial_id="c0", error=""), Acknowledged()),
        (ShardFailed(worker="w0", error=""), Acknowledged()),
    ],
)
def test_a_reply_arrives_as_it_was_sent(request_: Request[Any], reply: Any) -> None:
    assert HOPPER.decode_reply(request_, HOPPER.encode(reply)) == reply


def test_sums_arrive_bit_for_bit() -> None:
    sums = {"loss": np.array([0.1, 3.0]), "auc": np.random.default_rng(0).random((5, 2))}
    report = TrainReport(
        unit_id="x", members=(FAILED, TrainedMember(**DONE, sums=sums, digest="d", checkpoint_bytes=9))
    )
    arrived = HOPPER.decode_request(HOPPER.encode(NextUnit(**SENDER, report=report)))
    assert isinstance(arrived, NextUnit)
    assert isinstance(arrived.report, TrainReport)
    trained = arrived.report.members[1]
    assert isinstance(trained, TrainedMember)
    for name, part in sums.items():
        np.testing.assert_array_equal(trained.sums[name], part)


def test_whoever_changes_a_message_raises_the_version() -> None:
    """Then note the new digest here: a driver and a worker of two versions refuse each other instead of guessing."""
    messages = _messages(Beat, NextUnit, Printed)
    assert len(messages) == 34
    assert (HOPPER.version, _digest(messages)) == (10, "49141182aa010aa9")
    messages = _messages(AskRuns)
    assert len(messages) == 6
    assert (POOL.version, _digest(messages)) == (2, "d227b67b8583c9a2")


def _messages(*beside: type) -> list[Any]:
    """The messages of the modules that some are in."""
    kinds = [kind for kind in map(vars(hopper).get, hopper.__all__) if isinstance(kind, type) and is_dataclass(kind)]
    modules = {kind.__module__ for kind in beside}
    return [kind for kind in kinds if kind.__module__ in modules or (kind is Record and NextUnit in beside)]


def _digest(messages: list[Any]) -> str:
    lines = [f"{kind.__name__}.{field.name}" for kind in messages for field in fields(kind)]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


ASKED = AskRuns(worker="w0", process="p", after=3)


@pytest.mark.parametrize(
    ("request_", "reply"),
    [
        (ASKED, Runs(())),
        (ASKED, Runs((PooledRun("run 1", 4, "tcp://h:1"), PooledRun("run 2", 5, "tcp://h:2")))),
        (ASKED, Close()),
        (ServiceEnded(worker="w0", process="p", start=4, error="gone", cpu_seconds=0.5), Noted()),
    ],
)
def test_messages_of_a_pool_arrive_as_they_were_sent(request_: Request[Any], reply: Any) -> None:
    assert POOL.decode_request(POOL.encode(request_)) == request_
    assert POOL.decode_reply(request_, POOL.encode(reply)) == reply
