from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from campaigns import campaign, frame, records

from cerebro_spark.adaptation import Materialised
from cerebro_spark.adaptation._rates import CycleCosts, Rates, Seconds, predicted_training, work_of
from cerebro_spark.adaptation._stored_layers import StoredLayers
from cerebro_spark.callbacks import UnitFinished
from optimizer.adaptation import Candidate, plan
from optimizer.graph import Layer, LayerGraph

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store

RATES = Rates(frozen=1e6, learning=5e5, cold=1e5, warm=1e6)


def _candidate(name: str, epochs: int) -> Candidate:
    layers = [
        Layer("x", "input", (), (10,)),
        Layer("conv", "conv", ("x",), (25,), flops=2000, fingerprint="c"),
        Layer("fc", "fc", ("conv",), (2,), flops=100, param_bytes=8, frozen=False),
    ]
    return Candidate(name, LayerGraph(layers, ["fc"]), epochs, 16)


@pytest.mark.parametrize("workers", [1, 2])
def test_predicted_seconds_are_counted_by_hand(workers: int) -> None:
    """One group idles the second worker: its makespan is its own time."""
    two = [_candidate("a", 3), _candidate("b", 3)]
    costs = RATES.costs(3)
    kwargs: dict[str, Any] = {"disk_bytes": 10**9, "memory_bytes": 10**9, "workers": workers, "costs": costs}
    stored = plan(two, records=1000, **kwargs)
    assert stored.materialised == ("conv",)
    # Of 200 records: 3 epochs of two heads, trained, and of a hundred bytes, of which the first epoch's come cold.
    heads, read = 2 * 3 * 300 / 5e5, 100 / 1e5 + 2 * 100 / 1e6
    groups = len(stored.groups)
    expected = 200 * (heads + groups * read) / (workers if groups > 1 else 1)
    assert predicted_training(stored, RATES, 200) == pytest.approx(expected)
    # Nothing stored: the inputs are read, and the convolution runs once a group and epoch.
    bare = plan(two, records=1000, materialise=False, **kwargs)
    groups = len(bare.groups)
    read = 40 / 1e5 + 2 * 40 / 1e6
    expected = 200 * (heads + groups * (read + 3 * 2000 / 1e6)) / (workers if groups > 1 else 1)
    assert predicted_training(bare, RATES, 200) == pytest.approx(expected)


def _event(trial: str, epoch: int, seconds: float, **others: Any) -> UnitFinished:
    usual = {"kind": "train", "worker": "w0", "partition": 0, "began": 0.0, "ended": 1.0}
    return UnitFinished(trial_id=trial, epoch=epoch, seconds=seconds, **usual | others)


def test_a_cycle_says_what_its_workers_did_and_in_what_time() -> None:
    shares = {"waited_seconds": 0.5, "frozen_seconds": 1.0, "read_seconds": 2.0, "read_bytes": 100.0}
    events = [
        _event("a", 0, 4.0, members=2, **shares),
        _event("b", 0, 5.0, members=2, **shares),
        _event("a", 0, 7.0, kind="evaluate"),
        _event("a", 1, 3.0, partition=1, **shares | {"read_seconds": 0.5}),
    ]
    work = work_of(
        events,
        Materialised(flops=900, busy_seconds=3.0),
        2,
        rows={0: 10, 1: 20}.__getitem__,
        learning_flops=lambda trial, _: {"a": 7, "b": 5}[trial],
        frozen_flops=lambda members, _: 50 if "b" in members else 30,
    )
    assert (work.frozen_flops, work.frozen_seconds) == (900 + 10 * 50 + 20 * 30, 3.0 + 3 * 1.0)
    assert (work.learning_flops, work.learning_seconds) == (10 * 12 + 20 * 7, 2.5 + 3.5 + 1.5)
    assert (work.cold_bytes, work.cold_seconds, work.warm_bytes, work.warm_seconds) == (200, 4.0, 100, 0.5)
    # The first unit takes both its trials nine seconds; "a" has twelve in all, and no worker takes a part of it.
    assert work.measured == Seconds(1.5, 12.0)
    fitted = RATES.refitted(work)
    assert fitted == Rates(2000 / 6, 260 / 7.5, 50.0, 200.0)
    nothing = work_of([], Materialised(), 2, rows=len, learning_flops=len, frozen_flops=len)  # type: ignore[arg-type]
    assert RATES.refitted(nothing) == RATES
    assert nothing.measured == Seconds(0.0, 0.0)


@pytest.mark.parametrize(
    ("measured", "off", "is_off"), [(1.2, 0.2, False), (1.3, 0.3, True), (0.5, 1.0, True), (0.9, 1 / 9, False)]
)
def test_a_plan_that_was_a_quarter_off_is_made_again(measured: float, off: float, is_off: bool) -> None:
    other = Rates(1.0, 2.0, 3.0, 4.0)
    began = CycleCosts(RATES, Seconds(0.4, 0.6))
    assert (began.off, began.next) == (0.0, RATES)
    costs = began.over(other, Seconds(0.0, measured))
    assert costs.off == pytest.approx(off)
    assert (costs.is_off, costs.next) == (is_off, other if is_off else RATES)
    assert any("the next one is made with the measured rates" in line for line in costs.lines) == is_off
    # Rates of the user stay; a campaign that goes on without them takes those that were measured.
    given = replace(costs, given=True)
    assert given.next == other
    assert not any("the next one" in line for line in given.lines)
    for one in (began, costs, given):
        assert CycleCosts.from_dict(json.loads(json.dumps(asdict(one)))) == one


def test_rates_are_refitted_shown_and_known_to_another_process(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rates are far off: the first plan stores nothing, and the second is made with what was measured."""
    wrong = Rates(frozen=1e15, learning=1e15, cold=1e3, warm=1e3)
    monkeypatch.setattr(StoredLayers, "rates", lambda _: wrong)
    space = {"lr": [0.01], "layers": [4]}
    made = campaign(spark, store, costs=None, search_space=space)
    first = made.fit(frame(spark, *records(0, 60)))
    assert first.costs is not None
    assert first.costs.rates == wrong
    assert first.plan is not None
    assert first.plan.materialised == ()
    assert first.costs.is_off
    fitted, measured = first.costs.fitted, first.costs.measured
    assert fitted is not None
    assert measured is not None
    assert 0 < fitted.frozen < 1e15
    assert 0 < fitted.learning < 1e15
    assert fitted.cold > 0
    assert fitted.warm > 1e3
    trained = sum(event.seconds for event in first.outcome.events if event.kind == "train")
    assert measured == Seconds(0.0, pytest.approx(trained))
    text = first.explain()
    assert f"predicted: {first.costs.predicted}" in text
    assert f"measured: {measured}" in text
    assert "the next one is made with the measured rates" in text

    def again(_: Any) -> Rates:
        raise AssertionError("rates that the campaign's record has are measured again")

    monkeypatch.setattr(StoredLayers, "rates", again)
    other = campaign(spark, store, costs=None, search_space=space)
    assert f"{measured.total:,.2f} s measured" in other.explain()
    assert other.resume().costs == first.costs
    second = other.fit(frame(spark, *records(60, 70)))
    assert second.costs is not None
    assert second.costs.rates == fitted
    assert second.plan is not None
    assert second.plan.costs == fitted.costs(2)
