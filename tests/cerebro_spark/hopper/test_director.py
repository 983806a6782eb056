"""The director between a procedure and a run's trials: told once, journalled first, resumed anywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cerebro_spark.errors import RunError
from cerebro_spark.hopper import Director, Journal, RunSpec, Trial
from optimizer.procedures import (
    ASHA,
    PBT,
    Added,
    AgingEvolution,
    Hyperband,
    Limits,
    Listed,
    ListedSampler,
    Origin,
    Procedure,
    Stopped,
    SuccessiveHalving,
)
from optimizer.space import Space, uniform
from udfs.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    from optimizer.procedures import Source

SPEC = RunSpec("run", "data", [{"lr": 0}], "m:f", 9, 0, "fixed", 1, "loss", False, "rolling", "Hyperband")
SPACE = Space({"lr": uniform(1.0, 40.0)})
PARAMS = [{"lr": number} for number in range(40)]


def procedures(name: str) -> Procedure:
    """A new one, of the same arguments each time."""
    sampler = ListedSampler(PARAMS)
    match name:
        case "hyperband":
            return Hyperband(sampler, max_epochs=9)
        case "halving":
            return SuccessiveHalving(sampler, configurations=9, max_epochs=9)
        case "asha":
            return ASHA(sampler, max_epochs=4, eta=2, limits=Limits(max_configurations=12))
        case "together" | "rolling":
            return PBT(SPACE, population=4, epochs=3, quantile=0.5, generations=name)
        case "evolution":
            return AgingEvolution(SPACE, population=3, configurations=9, epochs=2)
    return Listed(PARAMS[:5], epochs=2)


def director(folder: Path, procedure: Procedure) -> Director:
    journal = Journal(Store.from_uri(str(folder)), "run")

    def trial(trial_id: str, params: dict[str, Any]) -> Trial:
        """As far as its results are; there are no checkpoints here."""
        return Trial(trial_id, params, **journal.results(trial_id))

    return Director(procedure, journal, slots=2, trial=trial)


def loss(trial: Trial) -> float:
    return (trial.params["lr"] * 7 % 11) / (1 + trial.epoch)


def train(run: Director, steps: int) -> int:
    """Finish epochs, one trial after the other as their losses fall; gives the steps that remain."""
    journal = run._journal
    while steps:
        running = [trial for trial in run.trials if trial.running]
        if not running:
            break
        trial = min(running, key=lambda trial: (trial.epoch * 3 + trial.params["lr"] % 5, trial.trial_id))
        assert trial.epoch < trial.granted
        trial.history.append({"loss": loss(trial)})
        journal.close([trial], [])
        run.carry_out(run.ask([trial]))
        steps -= 1
    return steps


def course(run: Director) -> dict[str, tuple[str, int, str, Source | None]]:
    return {trial.trial_id: (trial.status, trial.epoch, trial.reason, trial.source) for trial in run.trials}


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["hyperband", "halving", "asha", "listed", "together", "rolling", "evolution"]),
    cuts=st.lists(st.integers(1, 30), max_size=3),
)
def test_a_run_that_is_resumed_anywhere_ends_as_one_that_is_not(
    tmp_path_factory: pytest.TempPathFactory, name: str, cuts: list[int]
) -> None:
    whole = director(tmp_path_factory.mktemp("whole"), procedures(name))
    whole.begin()
    train(whole, -1)
    assert all(status == "finished" for status, *_ in course(whole).values())
    folder = tmp_path_factory.mktemp("cut")
    for steps in cuts:
        part = director(folder, procedures(name))
        part.begin()
        train(part, steps)
    rest = director(folder, procedures(name))
    rest.begin()
    train(rest, -1)
    assert course(rest) == course(whole)
    assert rest._journal.orders() == whole._journal.orders()


def test_results_that_no_procedure_was_told_of_are_told_first(tmp_path: Path) -> None:
    """The driver was killed between the results of an epoch and the decision about them."""
    first = director(tmp_path, procedures("listed"))
    first.begin()
    trial = first.trials[0]
    trial.history.append({"loss": 1.0})
    first._journal.close([trial], [])
    again = director(tmp_path, procedures("listed"))
    again.begin()
    (told,) = again._journal.orders()[1].results
    assert (told.trial_id, told.epoch) == ("c000", 1)
    once_more = director(tmp_path, procedures("listed"))
    once_more.begin()
    assert len(once_more._journal.orders()) == 2, "nothing is told twice"


def test_the_journal_knows_the_commands_that_were_carried_out(tmp_path: Path) -> None:
    """The driver was killed after the request was journalled, and before its sender heard of it."""
    run = director(tmp_path, procedures("listed"))
    run.begin()
    added, stopped, ended = (Origin(command, "ada", "2026-11-29") for command in ("add", "stop", "end"))
    decisions = run.request(Added({"lr": 7}, 2, origin=added))
    run.carry_out(decisions)
    run.carry_out(run.request(Stopped("c000", origin=stopped)))
    again = director(tmp_path, procedures("listed"))
    for each in (run, again):
        assert each.decisions_about(added) == decisions
        assert [str(decision.trial_id) for decision in each.decisions_about(stopped) or ()] == ["c000"]
        assert each.decisions_about(ended) is None
        assert each.decisions_about(None) is None
    again.carry_out(again.out_of_time("ended by ada", ended))
    journalled = again._journal.orders()
    assert again.out_of_time("ended by ada", ended) == ()
    assert again._journal.orders() == journalled
    assert director(tmp_path, procedures("listed")).decisions_about(ended)


def test_an_epoch_that_is_trained_again_is_no_news(tmp_path: Path) -> None:
    run = director(tmp_path, Listed(PARAMS[:2], epochs=2))
    run.begin()
    train(run, -1)
    assert [trial.status for trial in run.trials] == ["finished"] * 2
    trial = run.trials[0]
    # Its checkpoints are damaged: it is read without its last epoch.
    del trial.history[1:]
    run._journal.write_trial(trial)
    again = director(tmp_path, Listed(PARAMS[:2], epochs=2))
    again.begin()
    assert [(trial.status, trial.granted) for trial in again.trials] == [("running", 2), ("finished", 2)]
    before = len(again._journal.orders())
    train(again, -1)
    assert [trial.status for trial in again.trials] == ["finished"] * 2
    assert all(not order.results for order in again._journal.orders()[before:])


@pytest.mark.parametrize("name", ["halving", "hyperband", "listed"])
def test_damaged_epochs_anywhere_change_no_decision(tmp_path: Path, name: str) -> None:
    """Every other trial lost its last epoch, paused ones too, which are continued while they train it again."""
    whole = director(tmp_path / "whole", procedures(name))
    whole.begin()
    train(whole, -1)
    for steps in range(1, 40, 6):
        folder = tmp_path / f"cut-{steps}"
        part = director(folder, procedures(name))
        part.begin()
        train(part, steps)
        for trial in part.trials[::2]:
            del trial.history[-1:]
            part._journal.write_trial(trial)
        rest = director(folder, procedures(name))
        rest.begin()
        train(rest, -1)
        assert course(rest) == course(whole), steps


def test_a_failure_blocks_nobody_and_is_told_once(tmp_path: Path) -> None:
    run = director(tmp_path, procedures("halving"))
    run.begin()
    failed = run.trials[3]
    failed.status, failed.traceback = "raised", "ZeroDivisionError"
    run._journal.close([failed], [])
    run.carry_out(run.ask([failed]))
    train(run, -1)
    assert {trial.status for trial in run.trials} == {"raised", "finished"}
    told = [result for order in run._journal.orders() for result in order.results if result.trial_id == "c003"]
    assert len(told) == 1


def test_what_is_no_number_ends_its_trial_as_diverged(tmp_path: Path) -> None:
    run = director(tmp_path, procedures("listed"))
    run.begin()
    trial = run.trials[0]
    trial.history.append({"loss": float("nan")})
    run.carry_out(run.ask([trial]))
    assert (trial.status, trial.reason) == ("diverged", "diverged: loss is nan")


def test_a_search_of_other_arguments_does_not_go_on_with_a_run(tmp_path: Path) -> None:
    run = director(tmp_path, procedures("hyperband"))
    run.begin()
    with pytest.raises(RunError, match="run 'run' cannot go on: decision 3 of call 0 differs"):
        director(tmp_path, Hyperband(ListedSampler(PARAMS), max_epochs=3))


def test_a_missing_order_is_told(tmp_path: Path) -> None:
    journal = Journal(Store.from_uri(str(tmp_path)), "run")
    journal.begin(replace(SPEC, configs=[{}]))
    run = director(tmp_path, procedures("listed"))
    run.begin()
    train(run, 3)
    (tmp_path / "runs/run/orders/order-000001.json").unlink()
    with pytest.raises(RunError, match=r"order-000001\.json is missing"):
        journal.orders()


def test_a_trial_that_reports_within_its_grant_leaves_no_slot_idle(tmp_path: Path) -> None:
    sampler = ListedSampler(PARAMS)
    procedure = ASHA(sampler, max_epochs=4, min_epochs=4, eta=2, limits=Limits(max_configurations=9))
    run = director(tmp_path, procedure)
    run.begin()
    assert len(run.trials) == 2
    for _ in range(3):
        train(run, 1)
        assert len(run.trials) == 2
    train(run, 5)
    assert len(run.trials) > 2
