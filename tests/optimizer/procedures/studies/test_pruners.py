"""Optuna's pruners as stoppers: which of them prune when, and that the plan says so."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import optuna
import pytest
from optuna.pruners import (
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    PatientPruner,
    PercentilePruner,
    SuccessiveHalvingPruner,
    ThresholdPruner,
)
from procedure_contract import ProcedureContract

from benchmarks.procedures.simulation import simulate
from optimizer.errors import InvalidArgumentError
from optimizer.procedures import (
    ASHA,
    Limits,
    Listed,
    ListedSampler,
    Patience,
    RandomSampler,
    SuccessiveHalving,
)
from optimizer.procedures.studies import OptunaPruner, OptunaSampler
from optimizer.space import Space, uniform

if TYPE_CHECKING:
    from optimizer.procedures import Procedure, Trial

NUMBERS = [{"number": number} for number in range(9)]


def by_number(trial: Trial, epoch: int) -> float:
    return trial.number + 1 / epoch


def rising(trial: Trial, epoch: int) -> float:
    return trial.number + epoch / 10


def patient(pruner: Any, epochs: int) -> PatientPruner:
    """Make a pruner that Optuna calls experimental, since 2021."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return PatientPruner(pruner, epochs)


def pruned(pruner: Any, losses: Any = by_number, **settings: Any) -> dict[str, int]:
    """Epochs of those that were pruned."""
    search = Listed(NUMBERS, epochs=6, stoppers=[OptunaPruner(pruner)], **settings)
    ledger = simulate(search, losses, 1.0, 2, rounds="together").ledger
    return {trial.trial_id: trial.finished for trial in ledger if trial.reason.startswith(type(pruner).__name__)}


class TestPrunedContract(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        rules = [*settings.pop("stoppers", ()), OptunaPruner(MedianPruner(n_startup_trials=2))]
        return Listed(NUMBERS, epochs=4, concurrency=3, stoppers=rules, **settings)


@pytest.mark.parametrize(
    ("pruner", "losses"),
    [
        (MedianPruner(n_startup_trials=2), by_number),
        (PercentilePruner(25, n_startup_trials=2), by_number),
        (patient(MedianPruner(n_startup_trials=2), 1), rising),
    ],
    ids=["median", "percentile", "patient"],
)
def test_what_compares_with_finished_trials_prunes_in_waves_alone(pruner: Any, losses: Any) -> None:
    """Prune no trial if all nine train together; in waves, prune all that are worse than those before."""
    assert pruned(pruner, losses, concurrency=9) == {}
    one_by_one = pruned(pruner, losses, concurrency=1)
    assert one_by_one
    assert "c000" not in one_by_one
    assert max(one_by_one.values()) < 6
    assert pruned(pruner, losses, concurrency=3).keys() >= {"c006", "c007", "c008"}
    assert pruned(pruner, losses) == pruned(pruner, losses, concurrency=2), "by default, as many as there are slots"


def test_who_has_come_to_the_end_is_not_pruned_there() -> None:
    """Trials that train together end at different times: nothing is saved by pruning their last epoch."""
    rule = OptunaPruner(MedianPruner(n_startup_trials=2))
    search = Listed(NUMBERS, epochs=6, concurrency=9, stoppers=[rule])
    ledger = simulate(search, by_number, 1.0, 2).ledger
    assert {trial.reason for trial in ledger} == {"finished its 6 epochs"}


def test_the_plan_says_that_it_trains_in_waves() -> None:
    rule = OptunaPruner(MedianPruner())
    idle = Listed(NUMBERS, epochs=6, stoppers=[rule]).plan()
    assert "in waves, as many as there are idle slots: MedianPruner" in str(idle)
    two = Listed(NUMBERS, epochs=6, stoppers=[rule, Patience(2)], concurrency=2).plan().explain()
    assert "in waves, 2 at the same time: MedianPruner" in two
    assert "in waves" not in str(SuccessiveHalving(ListedSampler(NUMBERS), configurations=9, max_epochs=9).plan())
    rungs = SuccessiveHalving(ListedSampler(NUMBERS), configurations=9, max_epochs=9, stoppers=[rule]).plan()
    assert "MedianPruner compares with configurations that have finished the last rung" in str(rungs)
    for alone in map(OptunaPruner, (patient(None, 2), SuccessiveHalvingPruner(min_resource=1))):
        assert "waves" not in str(Listed(NUMBERS, epochs=6, stoppers=[alone]).plan())


@pytest.mark.parametrize(
    ("pruner", "expected"),
    [
        (NopPruner(), {}),
        (patient(None, 1), {}),
        # The first epoch is step 1: of the nine, five reach more than 4 in it.
        (ThresholdPruner(upper=5.5), {"c005": 1, "c006": 1, "c007": 1, "c008": 1}),
    ],
    ids=["none", "patient alone", "threshold"],
)
def test_what_looks_at_one_trial_prunes_where_all_train_together(pruner: Any, expected: dict[str, int]) -> None:
    assert pruned(pruner, concurrency=9) == expected


def test_optunas_halving_and_hyperband_prune_where_all_train_together() -> None:
    """Where they are told the fewest epochs; left to themselves, they learn it from those that came to the end."""
    assert len(pruned(SuccessiveHalvingPruner(min_resource=1), concurrency=9)) >= 5
    assert pruned(HyperbandPruner(min_resource=1, max_resource=6), concurrency=9)
    for automatic in (SuccessiveHalvingPruner(), HyperbandPruner()):
        assert not pruned(automatic, concurrency=9)
        assert pruned(automatic)


def test_the_larger_is_better_where_it_is() -> None:
    search = Listed(
        NUMBERS, epochs=4, concurrency=1, metric="auc", mode="max", stoppers=[OptunaPruner(MedianPruner(1))]
    )
    ledger = simulate(search, lambda trial, _: -float(trial.number), 1.0, 1).ledger
    assert [trial.finished for trial in ledger] == [4] + [1] * 8
    assert ledger["c001"].reason == "MedianPruner: pruned with auc -1 after 1 epochs"


def test_one_pruner_serves_two_searches() -> None:
    """This one learns its rungs from the first that comes to the end, and keeps them."""
    rule = OptunaPruner(SuccessiveHalvingPruner())
    logs = [simulate(Listed(NUMBERS, epochs=4, stoppers=[rule]), by_number, 1.0, 2).log for _ in range(2)]
    assert logs[0] == logs[1]


def test_with_rungs_it_prunes_who_climbs() -> None:
    search = ASHA(
        ListedSampler(NUMBERS * 2), max_epochs=9, limits=Limits(18), stoppers=[OptunaPruner(ThresholdPruner(upper=1.2))]
    )
    ledger = simulate(search, lambda trial, epoch: trial.number + epoch / 10, 1.0, 2).ledger
    assert ledger["c001"].reason == "ThresholdPruner: pruned with loss 1.3 after 3 epochs"


def test_no_pruner() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"pruner must be a pruner of Optuna, such as MedianPruner\(\), got 'median'"
    ):
        OptunaPruner("median")


def test_without_optuna_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    space = Space({"x": uniform(0, 1)})
    pruner = optuna.pruners.MedianPruner()
    monkeypatch.setitem(sys.modules, "optuna", None)
    for make in (lambda: OptunaSampler(space, "tpe"), lambda: OptunaPruner(pruner)):
        with pytest.raises(InvalidArgumentError, match=r"needs Optuna: pip install 'cerebro-spark\[optuna\]'"):
            make()
    assert RandomSampler(space).suggest(0, None)
