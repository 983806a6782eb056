"""A trial's log: bounded, whatever is printed, and adding up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Journal, Trial, TrialLog, _log
from udfs.hopper import Printed

if TYPE_CHECKING:
    from udfs.store import Store

KEPT = 8
TEXTS = st.text(st.sampled_from("ab\u20ac"), max_size=KEPT)
PRINTED = st.builds(Printed, st.just("c0"), TEXTS, st.just(0), TEXTS) | st.builds(
    Printed, st.just("c0"), TEXTS.filter(lambda text: len(text) == KEPT), st.integers(1, 9), TEXTS
)


@given(units=st.lists(PRINTED, max_size=8))
def test_the_first_and_the_last_are_kept_and_the_rest_is_counted(units: list[Printed]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_log, "_KEPT", KEPT)
        log = TrialLog()
        for unit in units:
            log = log.extended(unit)
    assert len(log.first) <= KEPT
    assert len(log.last) <= KEPT
    everything = "".join(unit.first + "?" * unit.omitted + unit.last for unit in units)
    assert len((log.first + log.last).encode()) + log.omitted == len(everything.encode())
    assert everything.startswith(log.first)
    assert everything.endswith(log.last)
    if not log.omitted:
        assert str(log) == everything


def test_a_log_is_read_as_it_was_written(store: Store) -> None:
    journal, trial = Journal(store, "run"), Trial("c000", {})
    assert journal.log("c000") == TrialLog()
    trial.log = TrialLog("first \u20ac\x00\n", 3, "last\n")
    journal.write_log(trial)
    assert journal.log("c000") == trial.log
    store.write(store.read("runs", "run", "logs", "c000.json").replace(b"last", b"lost"), "runs/run/logs/c000.json")
    with pytest.raises(RunError, match=r"delete it: the run goes on, and trial\.log begins anew"):
        journal.log("c000")
