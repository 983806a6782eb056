"""Retention: states that a clone or ``keep`` needs stay, all others at ends of epochs go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from simulated_run import run_context

from cerebro_spark.hopper import Recorded, RunSpec, Trial, best_epoch
from cerebro_spark.hopper._retention import Retention
from optimizer.procedures import Source
from udfs.hopper import Checkpoints, Record
from udfs.rpc import digest_of
from udfs.store import Store, StoreError

if TYPE_CHECKING:
    from pathlib import Path

SPEC = RunSpec("run", "data", [{"lr": 0}], "m:f", 9, 0, "fixed", 1, "loss", False, "rolling", "PBT")
LOSSES = [0.5, 0.2, 0.3, 0.4, 0.35]


def trained(checkpoints: Checkpoints, trial_id: str, units: int, shards: int) -> Trial:
    """A trial whose workers have written and dropped as they do."""
    trial = Trial(trial_id, {})
    for version in range(1, units + 1):
        state = f"{trial_id} {version}".encode()
        visits = tuple(divmod(number, shards) for number in range(version))
        checkpoints.write(Record(trial_id, version, digest_of(state), visits), state)
        checkpoints.drop(trial_id, version, shards)
        trial.was_stored(version, digest_of(state))
    trial.history = [{"loss": loss} for loss in LOSSES[: units // shards]]
    return trial


def retention_of(
    checkpoints: Checkpoints, trials: list[Trial], shards: int, *, spec: RunSpec = SPEC, **settings: Any
) -> Retention:
    context = run_context(shards, spec=spec, **settings)
    context.prepared.store = checkpoints.store  # type: ignore[misc]  # a namespace
    return Retention(context, trials)


def versions(checkpoints: Checkpoints, trial_id: str) -> list[int]:
    return [record.version for record in checkpoints.records(trial_id)]


@pytest.mark.parametrize(
    ("keep", "shards", "stay"),
    [
        ("last", 2, [8, 9]),
        ("best", 2, [4, 8, 9]),
        ("epochs", 2, [2, 4, 6, 8, 9]),
        # The one before the last is there to go back to.
        ("last", 1, [4, 5]),
        ("best", 1, [2, 4, 5]),
    ],
)
def test_what_keep_says_stays(tmp_path: Path, keep: str, shards: int, stay: list[int]) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    trial = trained(checkpoints, "c000", 9 if shards == 2 else 5, shards)
    retention_of(checkpoints, [trial], shards, spec=replace(SPEC, keep=keep)).sweep([trial])
    assert versions(checkpoints, "c000") == stay
    assert set(stay) <= set(trial.stored)


def test_a_source_stays_until_its_clone_has_two_checkpoints_of_its_own(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    source, other = trained(checkpoints, "c000", 10, 2), trained(checkpoints, "c001", 10, 2)
    clone = Trial("c002", {}, source=Source("c000", 2))
    trials = [source, other, clone]
    retention = retention_of(checkpoints, trials, 2)
    for stored in (0, 1):
        if stored:
            clone.was_stored(stored, "d")
        retention.sweep(trials)
        assert versions(checkpoints, "c000") == [4, 9, 10]
        assert versions(checkpoints, "c001") == [9, 10]
    clone.status = "paused"
    retention.sweep([clone])
    assert versions(checkpoints, "c000") == [4, 9, 10]
    clone.was_stored(2, "e")
    retention.sweep([clone])
    assert versions(checkpoints, "c000") == [9, 10]
    # One that has ended needs its source no more.
    again = trained(checkpoints, "c003", 10, 2)
    trials += [again, Trial("c004", {}, status="raised", source=Source("c003", 1))]
    retention.sweep(trials)
    assert versions(checkpoints, "c003") == [9, 10]


def test_in_a_replay_a_source_stays_for_a_clone_that_has_not_begun(tmp_path: Path) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    source, clone = trained(checkpoints, "c000", 10, 2), Trial("c001", {}, source=Source("c000", 2))
    trials = [source]
    retention = retention_of(checkpoints, trials, 2, recorded=Recorded({}, {"c000": source, "c001": clone}))
    retention.sweep(trials)
    assert versions(checkpoints, "c000") == [4, 9, 10]
    trials.append(Trial("c001", {}, status="finished", source=clone.source))
    retention.sweep(trials)
    assert versions(checkpoints, "c000") == [9, 10]


def test_a_store_that_deletes_nothing_ends_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoints = Checkpoints(Store.from_uri(str(tmp_path)), "run")
    trial = trained(checkpoints, "c000", 10, 2)

    def refuse(*_: object) -> None:
        raise StoreError("read-only")

    monkeypatch.setattr(Store, "delete", refuse)
    retention_of(checkpoints, [trial], 2).sweep([trial])
    assert set(trial.stored) == set(range(1, 11))


def test_the_best_epoch_is_the_first_of_equal_finite_ones() -> None:
    history = [{"loss": float("nan")}, {"loss": 0.2}, {"loss": 0.1}, {"loss": 0.1}, {"other": 0.0}]
    assert best_epoch(history, "loss", larger_is_better=False) == 3
    assert best_epoch(history, "loss", larger_is_better=True) == 2
    assert best_epoch(history[:1], "loss", larger_is_better=True) is None
    assert best_epoch([], "loss", larger_is_better=True) is None
