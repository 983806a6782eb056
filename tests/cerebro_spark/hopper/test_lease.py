"""One driver a run: refused while the other lives, taken over once it gives no sign."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Lease
from udfs.documents import write_document

if TYPE_CHECKING:
    from udfs.store import Store

PLACE = ("runs", "run", "lease.json")


def lease(store: Store) -> Lease:
    return Lease(store, "run", beat_s=0.05, expiry_s=1.0)


def test_a_second_driver_is_refused_while_the_first_lives(store: Store) -> None:
    with lease(store) as first:
        with (
            pytest.raises(RunError, match=r"run 'run' is being trained by process \d+/\d+ on .*: wait"),
            lease(store),
        ):
            pass
        first.check()
    assert not store.exists(*PLACE)
    began = time.monotonic()
    with lease(store):
        assert time.monotonic() - began < 0.5, "it was given back"


def test_a_silent_driver_is_replaced_and_finds_out(store: Store) -> None:
    """Its clock does not matter: it was stopped for longer than a lease lasts, and goes on."""
    with Lease(store, "run", beat_s=3.0, expiry_s=1.0) as stopped:
        facts = json.loads(store.read(*PLACE))["content"]
        write_document(store, facts | {"machine": "another"}, *PLACE)
        began = time.monotonic()
        with lease(store) as second:
            assert 0.9 < time.monotonic() - began < 2.5
            time.sleep(3.2)
            second.check()
            with pytest.raises(RunError, match="was taken over by process"):
                stopped.check()
    assert not store.exists(*PLACE)


def test_a_living_driver_stops_for_one_that_takes_over(store: Store) -> None:
    with lease(store) as first:
        began = time.monotonic()
        with Lease(store, "run", beat_s=0.05, expiry_s=1.0, take_over=True) as second:
            assert time.monotonic() - began >= 1.0, "the first driver may still have been writing"
            second.check()
            with pytest.raises(RunError, match="was taken over by process"):
                first.check()
            with pytest.raises(RunError, match="is being trained"), lease(store):
                pass
    assert not store.exists(*PLACE), "the first driver's end left the lease to the second"


def test_of_two_that_take_over_the_last_has_the_run(store: Store) -> None:
    found: list[str] = []

    def take_over() -> None:
        try:
            with Lease(store, "run", beat_s=0.05, expiry_s=0.5, take_over=True) as mine:
                time.sleep(1.5)
                mine.check()
                found.append("trained")
        except RunError:
            found.append("refused")

    with lease(store):
        threads = [threading.Thread(target=take_over) for _ in range(2)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        for thread in threads:
            thread.join()
    assert sorted(found) == ["refused", "trained"]


def test_nothing_is_awaited_where_no_driver_lives(store: Store) -> None:
    began = time.monotonic()
    with Lease(store, "run", take_over=True):
        assert time.monotonic() - began < 1.0


def test_a_killed_driver_of_this_machine_is_replaced_at_once(store: Store) -> None:
    code = (
        "import os, signal, sys; from cerebro_spark.hopper import Lease; from udfs.store import Store\n"
        "with Lease(Store(sys.argv[1]), 'run'): os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", code, store.uri], check=False, timeout=120)
    assert store.exists(*PLACE)
    began = time.monotonic()
    with Lease(store, "run"):
        assert time.monotonic() - began < 1.0


def test_a_damaged_lease_does_not_end_a_run(store: Store) -> None:
    with lease(store) as mine:
        store.write(b"{", *PLACE)
        time.sleep(0.3)
        mine.check()
        assert json.loads(store.read(*PLACE))["content"]["counter"] > 1
