"""Checkpoints of a worker: held in memory for the next one, and written to the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.hopper import Checkpoints, Record, States
from udfs.store import Store

if TYPE_CHECKING:
    from pathlib import Path


def test_checkpoints_above_the_limit_are_dropped_once_the_store_has_them() -> None:
    states = States(10)
    states.put("c0", 1, b"12345678")
    states.put("c1", 1, b"12345678")
    assert states.stored("c1", 2) == [], "another version than the one that is held"
    assert states.get("c0/1") is not None
    assert states.stored("c0", 1) == ["c0"]
    assert states.get("c0/1") is None
    assert states.get("c1/1") == b"12345678"
    states.put("c1", 2, b"abc")
    assert states.get("c1/1") is None
    states.drop("c1", 1)
    assert states.get("c1/2") == b"abc"
    states.drop("c1", 2)
    assert states.get("c1/2") is None


def test_the_last_complete_checkpoint_is_found(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    assert checkpoints.last("c0") is None
    first = Record("c0", 1, "aaaaaaaaaa", ((0, 1),), {"loss": [1.0, 2.0]})
    second = Record("c0", 2, "bbbbbbbbbb", ((0, 1), (0, 0)))
    other = Record("c0", 2, "cccccccccc", ((0, 1), (0, 2)))
    checkpoints.write(first, b"one")
    assert checkpoints.last("c0") == first
    checkpoints.write(second, b"two")
    checkpoints.write(other, b"another two")
    assert checkpoints.read("c0", 2, second.digest) == b"two"
    assert checkpoints.read("c0", 2, other.digest) == b"another two"
    checkpoints.drop("c0", 2)
    last = checkpoints.last("c0")
    assert last is not None
    assert last.version == 2
    assert checkpoints.read("c0", 2, last.digest) in {b"two", b"another two"}
    assert len(checkpoints.store.list("runs", "run", "checkpoints", "c0")) == 4
    # A checkpoint without its record is not complete: its writer was killed in between.
    checkpoints.store.delete("runs", "run", "checkpoints", "c0", "000002-cccccccc.json")
    assert checkpoints.last("c0") == second
