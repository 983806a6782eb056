"""Every procedure, held to the contract; and the contract, held to procedures that break it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from procedure_contract import ProcedureContract
from rehearsal import Rehearsal

from optimizer.procedures import (
    ASHA,
    PBT,
    AgingEvolution,
    Hyperband,
    Limits,
    Listed,
    Procedure,
    ProcedureError,
    RandomSampler,
    RandomSearch,
    Replay,
    Sampler,
    Schedule,
    Segment,
    Sequential,
    SuccessiveHalving,
    replay,
)
from optimizer.space import Space, choice, log_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.procedures import Ledger, Plan, Trial

SPACE = Space({"lr": log_uniform(1e-5, 1e-1), "batch": choice([32, 64, 128])})


class TestListed(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Listed(SPACE.grid(3), epochs=3, **settings)


class TestRandomSearch(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return RandomSearch(SPACE, configurations=8, epochs=3, concurrency=3, seed=4, **settings)


class Climber(Sampler):
    """Learns: a suggestion depends on all that it was asked and told before."""

    def __init__(self) -> None:
        self._heard: list[tuple[str, int, str]] = []

    def suggest(self, number: int, ledger: Ledger) -> Mapping[str, Any]:
        best = ledger.best
        return {"number": number, "heard": str(self._heard[-9:]), "best": best and best.best_score}

    def hear(self, trial: Trial) -> None:
        self._heard.append((trial.trial_id, trial.finished, trial.status))


class TestSequential(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Sequential(Climber(), configurations=9, epochs=2, concurrency=2, **settings)


class TestSuccessiveHalving(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return SuccessiveHalving(RandomSampler(SPACE), configurations=13, max_epochs=9, **settings)


class TestHyperband(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Hyperband(RandomSampler(SPACE), max_epochs=9, mode="max", **settings)


class TestHyperbandInTurn(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Hyperband(Climber(), max_epochs=8, eta=2, brackets="in turn", **settings)


class TestAsha(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return ASHA(RandomSampler(SPACE), max_epochs=9, **{"limits": Limits(max_configurations=20), **settings})


class TestAshaOfTheSeeds(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        limits = {"limits": Limits(max_configurations=20), **settings}
        return ASHA(Climber(), max_epochs=9, rungs="additive", concurrency=3, **limits)


class TestPBT(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return PBT(SPACE, population=6, epochs=7, ready=2, seed=5, **settings)


class TestRollingPBT(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return PBT(SPACE, population=6, epochs=6, generations="rolling", only=["lr"], **settings)


class TestAgingEvolution(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return AgingEvolution(SPACE, population=4, configurations=12, epochs=2, sample=3, concurrency=3, **settings)


class TestInheritance(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return AgingEvolution(
            SPACE, population=4, configurations=12, epochs=2, concurrency=3, inherit_weights=True, **settings
        )


class TestReplay(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Replay(Schedule((Segment({"lr": 0.1}, 2), Segment({"lr": 0.2}, 1), Segment({"lr": 0.1}, 4))), **settings)


SEVERAL: dict[str, Any] = {"metric": ["loss", "size"], "mode": ["min", "max"]}


class TestSeveralHyperband(ProcedureContract):
    def make(self, **settings: Any) -> Procedure:
        return Hyperband(RandomSampler(SPACE, 3), max_epochs=9, **SEVERAL | settings)


class TestSeveralAsha(TestAsha):
    def make(self, **settings: Any) -> Procedure:
        return super().make(**SEVERAL | settings)


class TestSeveralPBT(TestPBT):
    def make(self, **settings: Any) -> Procedure:
        return super().make(**SEVERAL | settings)


class TestSeveralRollingPBT(TestRollingPBT):
    def make(self, **settings: Any) -> Procedure:
        return super().make(**SEVERAL | settings)


class TestSeveralAgingEvolution(TestAgingEvolution):
    def make(self, **settings: Any) -> Procedure:
        return super().make(**SEVERAL | settings)


CONTRACTS: list[type[ProcedureContract]] = [
    TestRandomSearch,
    TestSequential,
    TestSuccessiveHalving,
    TestHyperbandInTurn,
    TestAsha,
    TestPBT,
    TestRollingPBT,
    TestAgingEvolution,
    TestSeveralHyperband,
    TestSeveralAsha,
    TestSeveralRollingPBT,
]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CONTRACTS), st.integers(0, 999), st.floats(0, 1), st.sets(st.integers(0, 25)), st.integers(1, 9))
def test_whatever_happens_a_run_goes_on_from_any_prefix(
    contract: type[ProcedureContract], seed: int, part: float, failing: set[int], slots: int
) -> None:
    """Other orders, other losses, some of them not a number or from a failure, more and fewer slots."""
    suite = contract()

    def measure(trial_id: str, epoch: int) -> float | None:
        if int(trial_id[1:]) in failing and epoch == 1 + seed % 2:
            return (None, math.nan)[int(trial_id[1:]) % 2]
        return round(suite.measure(f"{trial_id} {seed}", epoch), seed % 3)

    run = Rehearsal(suite.make(), measure, seed, slots).run()
    assert run.granted.keys() == run.reasons.keys()
    end = int(part * len(run.log))
    resumed = suite.make()
    replay(resumed, run.log[:end])
    for exchange in run.log[end:]:
        assert tuple(resumed.ask(exchange.results, idle=exchange.idle)) == exchange.decisions
    assert resumed.best is None or resumed.best.trial_id == (run.procedure.best and run.procedure.best.trial_id)


class Forgetful(Listed):
    """Says nothing about what has finished."""

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        super().decide(fresh[len(fresh) :], idle)


class Moody(Listed):
    """Decides by how often it was asked, not by what it was told."""

    asked = 0

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:
        Moody.asked += 1
        for trial in fresh:
            if trial.waiting:
                self.stop(trial, f"call {Moody.asked}")
        super().decide(fresh, idle)


class Greedy(Listed):
    """Trains more than it says."""

    def plan(self) -> Plan:
        return Listed([{"lr": 0.1}], epochs=1).plan()


@pytest.mark.parametrize(
    ("broken", "test", "error"),
    [
        (Forgetful, "test_it_ends_and_every_configuration_has_a_reason", ProcedureError),
        (Moody, "test_the_same_results_give_the_same_decisions", AssertionError),
        (Moody, "test_a_run_resumes_from_its_log_at_any_call", Exception),
        (Greedy, "test_it_trains_no_more_than_its_plan_says", AssertionError),
    ],
)
def test_the_contract_finds_what_breaks_it(broken: type[Listed], test: str, error: type[Exception]) -> None:
    class Contract(ProcedureContract):
        def make(self, **settings: Any) -> Procedure:
            return broken([{"lr": 0.1}, {"lr": 0.2}], epochs=2, **settings)

    with pytest.raises(error):
        getattr(Contract(), test)()
