"""Checkpoints of a worker: held in memory for the next one, and written to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from optimizer.errors import InvalidArgumentError
from udfs.documents import DamagedError
from udfs.hopper import Checkpoints, Record, States
from udfs.rpc import Held, digest_of
from udfs.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def held(content: bytes) -> Held:
    return Held(content, digest_of(content))


def test_checkpoints_above_the_limit_are_dropped_once_the_store_has_them() -> None:
    states = States(10)
    states.put("c0", 1, held(b"12345678"))
    states.put("c1", 1, held(b"12345678"))
    assert states.stored("c1", 2) == [], "another version than the one that is held"
    assert states.get("c0/1") is not None
    assert states.stored("c0", 1) == ["c0"]
    assert states.get("c0/1") is None
    assert states.get("c1/1") == held(b"12345678")
    states.put("c1", 2, held(b"abc"))
    assert states.get("c1/1") is None
    states.drop("c1", 1)
    assert states.get("c1/2") == held(b"abc")
    states.drop("c1", 2)
    assert states.get("c1/2") is None


def test_checkpoints_that_only_this_worker_has() -> None:
    """They are handed over when its machine is about to end."""
    states = States(100)
    records = {number: Record("c0", number, digest_of(b"ab"), ((0, 0),) * number) for number in (1, 2)}
    states.put("c0", 1, held(b"a"), records[1])
    states.put("c0", 2, held(b"ab"), records[2])
    states.put("c1", 1, held(b"b"))
    assert states.unstored() == [(records[2], b"ab")]
    states.stored("c0", 2)
    assert states.unstored() == []


def test_the_last_complete_checkpoint_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    assert checkpoints.last("c0") is None
    first = Record("c0", 1, digest_of(b"one"), ((0, 1),), {"loss": [1.0, 2.0]})
    second = Record("c0", 2, digest_of(b"two"), ((0, 1), (0, 0)))
    other = Record("c0", 2, digest_of(b"another two"), ((0, 1), (0, 2)))
    checkpoints.write(first, b"one")
    assert checkpoints.last("c0") == first
    checkpoints.write(second, b"two")
    checkpoints.write(other, b"another two")
    assert checkpoints.read("c0", 2, second.digest) == b"two"
    assert checkpoints.read("c0", 2, other.digest) == b"another two"
    checkpoints.drop("c0", 2, 4)
    last = checkpoints.last("c0")
    assert last is not None
    assert last.version == 2
    assert checkpoints.read("c0", 2, last.digest) in {b"two", b"another two"}
    assert checkpoints.records("c0")[0] == first, "the one before is kept"
    # A checkpoint without its record is not complete: its writer was killed in between.
    checkpoints.store.delete("runs", "run", "checkpoints", "c0", f"000002-{other.digest[:8]}.json")
    assert checkpoints.last("c0") == second
    checkpoints.write(Record("c0", 3, digest_of(b"three"), ((0, 1), (0, 0), (1, 0))), b"three")
    checkpoints.drop("c0", 3, 4)
    assert [record.version for record in checkpoints.records("c0")] == [2, 3]


def test_ends_of_epochs_are_deleted_by_the_driver_alone(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    for version in range(1, 8):
        state = str(version).encode()
        visits = tuple((number // 2, number % 2) for number in range(version))
        checkpoints.write(Record("c0", version, digest_of(state), visits), state)
        checkpoints.drop("c0", version, 2)

    def versions() -> list[int]:
        return [record.version for record in checkpoints.records("c0")]

    assert versions() == [2, 4, 6, 7]
    assert checkpoints.retain("c0", 5, {2}) == {4}
    assert versions() == [2, 6, 7]
    assert checkpoints.retain("c0", 5, set()) == {2}
    assert len(checkpoints.store.list("runs", "run", "checkpoints", "c0")) == 4


def test_a_damaged_checkpoint_is_not_given(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    record = Record("c0", 1, digest_of(b"one"), ((0, 1),))
    checkpoints.write(record, b"one")
    assert checkpoints.intact(record)
    (path,) = tmp_path.rglob("*.safetensors")
    path.write_bytes(b"ond")
    assert not checkpoints.intact(record)
    with pytest.raises(DamagedError, match=r"000001-.*safetensors is damaged .*: Selection.resume goes on from"):
        checkpoints.read("c0", 1, record.digest)


@pytest.mark.parametrize("name", ["../c0", "", ".", "a/b", "c" * 129, "c0\n", "ç"])
def test_names_that_lead_elsewhere(tmp_path: Path, name: str) -> None:
    store = Store.from_uri(str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="from 1 to 128"):
        Checkpoints(store, name)
    with pytest.raises(InvalidArgumentError, match="from 1 to 128"):
        Checkpoints(store, "run").write(Record(name, 1, "d" * 32), b"")
