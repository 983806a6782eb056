"""One driver a run: refused while the other lives, taken over once it gives no sign."""

from __future__ import annotations

import json
import subprocess
import sys
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
