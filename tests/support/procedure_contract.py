"""Contract of a procedure as a test suite.

Subclass :class:`ProcedureContract` in a test module, and pytest collects its tests::

    class TestMyProcedure(ProcedureContract):
        def make(self, **settings):
            return MyProcedure(RandomSampler(SPACE, seed=1), **settings)

The procedure should have about twenty configurations, since the tests resume it at each of its calls.
"""

from __future__ import annotations

import json
import math
import random
import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from rehearsal import Rehearsal

from optimizer.procedures import (
    Added,
    DivergedLogError,
    EpochResult,
    Exchange,
    Extended,
    Limits,
    OutOfTime,
    Patience,
    Source,
    Start,
    Stop,
    Stopped,
    replay,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from optimizer.procedures import Procedure

__all__ = ["ProcedureContract"]

_SEEDS = range(5)


class ProcedureContract(ABC):
    """Tests of every procedure: its decisions are a function of the results, it ends, and no trial blocks it."""

    @abstractmethod
    def make(self, **settings: Any) -> Procedure:
        """Create a new procedure, equal each time.

        Parameters
        ----------
        **settings
            Settings of :class:`Procedure`: ``metric``, ``mode``, ``stoppers``, ``limits``. A procedure without an end
            needs default limits.
        """

    def measure(self, trial_id: str, epoch: int) -> float:
        """Return the metric of an epoch: a number from 0 to 1 that depends only on the arguments."""
        return zlib.crc32(f"{trial_id} {epoch}".encode()) / 2**32

    def rehearse(
        self, seed: int = 0, measure: Callable[[str, int], float | None] | None = None, **settings: Any
    ) -> Rehearsal:
        """Run a new procedure to its end.

        Parameters
        ----------
        seed : int
            Seed of the order in which epochs finish.
        measure : callable, optional
            Function like :meth:`measure`, which is the default.
        **settings
            Settings of :meth:`make`.
        """
        return Rehearsal(self.make(**settings), measure or self.measure, seed).run()

    def test_it_ends_and_every_configuration_has_a_reason(self) -> None:
        """Epochs finish in several random orders."""
        for seed in _SEEDS:
            run = self.rehearse(seed)
            assert run.granted
            assert run.granted.keys() == run.reasons.keys()
            assert not [trial for trial in run.procedure.ledger if trial.live]
            assert run.procedure.ask([], idle=5) == []

    def test_the_same_results_give_the_same_decisions(self) -> None:
        """Compare two runs with the same order of results."""
        for seed in _SEEDS:
            assert self.rehearse(seed).log == self.rehearse(seed).log

    def test_the_order_of_results_within_a_call_does_not_matter(self) -> None:
        """Shuffle the results of each call."""
        for seed in _SEEDS:
            shuffle = random.Random(seed).shuffle
            procedure = self.make()
            for exchange in self.rehearse(seed).log:
                results = list(exchange.results)
                shuffle(results)
                assert tuple(procedure.ask(results, idle=exchange.idle)) == exchange.decisions

    def test_a_run_resumes_from_its_log_at_any_call(self) -> None:
        """Resume through JSON, and compare the later decisions."""
        log = self.rehearse(1).log
        written = json.loads(json.dumps([exchange.document() for exchange in log], allow_nan=False))
        assert [Exchange.of(document).document() for document in written] == written
        step = max(1, len(log) // 40)
        for end in range(0, len(log) + 1, step):
            resumed = self.make()
            replay(resumed, [Exchange.of(document) for document in written[:end]])
            for exchange in log[end:]:
                assert tuple(resumed.ask(exchange.results, idle=exchange.idle)) == exchange.decisions
            assert resumed.done

    def test_another_log_is_refused(self) -> None:
        """Change the last decision of a log."""
        log = self.rehearse(1).log
        last = max(place for place, exchange in enumerate(log) if exchange.decisions)
        changed = Exchange(
            log[last].results, log[last].idle, (*log[last].decisions[:-1], Stop("c000", "never decided"))
        )
        refusal = ""
        try:
            replay(self.make(), [*log[:last], changed])
        except DivergedLogError as error:
            refusal = str(error)
        assert "never decided" in refusal

    def test_it_trains_no_more_than_its_plan_says(self) -> None:
        """Count configurations, and epochs of each and in all."""
        for seed in _SEEDS:
            run = self.rehearse(seed)
            plan = run.procedure.plan()
            clones = [trial for trial in run.procedure.ledger if trial.source and not trial.source.weights_only]
            assert plan.configurations is None or len(run.granted) - len(clones) <= plan.configurations
            assert plan.clones is None or len(clones) <= plan.clones
            assert plan.most_epochs is None or sum(run.finished.values()) <= plan.most_epochs
            assert max(len(trial.curve) for trial in run.procedure.ledger) <= plan.epochs_each
            assert str(plan) == str(self.make().plan()), "a plan does not change while the search runs"

    def test_nothing_is_decided_twice(self) -> None:
        """Add a call without results between the calls of a run."""
        procedure = self.make()
        for exchange in self.rehearse(2).log:
            assert tuple(procedure.ask(exchange.results, idle=exchange.idle)) == exchange.decisions
            assert procedure.ask([]) == []

    def test_a_failure_blocks_nothing(self) -> None:
        """Let every third configuration, or all of them, fail or measure no finite number."""
        for wrong in (None, math.nan, math.inf, -math.inf):
            for every in (1, 3):

                def measure(trial_id: str, epoch: int, wrong: float | None = wrong, every: int = every) -> float | None:
                    return wrong if int(trial_id[1:]) % every == 0 else self.measure(trial_id, epoch)

                run = self.rehearse(every, measure)
                assert run.granted.keys() == run.reasons.keys()
                best = run.procedure.best
                assert best is None or best.number % every
                assert best is not None or every == 1 or len(run.granted) == 1
                after = [
                    exchange for exchange in run.log for decision in exchange.decisions if _clones(decision, every)
                ]
                assert not after, "a failed configuration is cloned"

    def test_the_user_may_stop_any_configuration(self) -> None:
        """Stop the first four right after their starts; late results are ignored."""
        run = Rehearsal(self.make(), self.measure)
        run.tell([])
        for name in list(run.granted)[:4]:
            if name not in run.reasons:
                run.tell([Stopped(name)])
                assert run.reasons[name] == "stopped by the user"
                assert run.procedure.ask([EpochResult(name, 1, {run.procedure.metric: 0.0})]) == []
                assert run.procedure.ledger[name].finished == 0
        if not run.procedure.done:
            run.run()
        assert run.granted.keys() == run.reasons.keys()

    def test_the_user_may_add_configurations(self) -> None:
        """Added configurations and clones train their epochs, and the procedure starts as many others as without."""
        run = Rehearsal(self.make(), self.measure, 4).run(calls=3)
        if run.procedure.done:
            return
        parent = next(trial for trial in run.procedure.ledger if trial.finished)
        run.tell([Added({"by": "the user"}, 2), Added({"by": "a clone"}, 1, Source(parent.trial_id, 1))])
        guests = run.procedure.ledger.guests
        assert [guest.params["by"] for guest in guests] == ["the user", "a clone"]
        run.run()
        assert [run.finished[guest.trial_id] for guest in guests] == [2, 1]
        assert [run.reasons[guest.trial_id] for guest in guests] == ["finished its 2 epochs", "finished its 1 epochs"]
        planned = run.procedure.plan().configurations
        sources = {trial: trial.source for trial in run.procedure.ledger if trial not in guests}
        started = [trial for trial, source in sources.items() if source is None or source.weights_only]
        assert planned is None or planned - len(guests) <= len(started) <= planned
        resumed = self.make()
        replay(resumed, run.log)
        assert resumed.done

    def test_the_user_may_ask_for_more_epochs(self) -> None:
        """They follow those of the procedure, which decides as without them and waits for none of them."""
        for calls in (2, 5, 9):
            run = Rehearsal(self.make(), self.measure, 4).run(calls=calls)
            if run.procedure.done:
                return
            asked: dict[str, int] = {}
            for each in list(run.procedure.ledger)[:4]:
                asked[each.trial_id] = 3
                run.tell([Extended(each.trial_id, 3)])
            for name in asked:
                if not run.procedure.done and name in run.reasons:
                    run.tell([Extended(name, 1)])
                    asked[name] += 1
            run.run()
            planned = run.procedure.plan()
            started = [trial for trial in run.procedure.ledger if trial.source is None]
            assert planned.configurations is None or len(started) <= planned.configurations
            for trial in run.procedure.ledger:
                more = asked.get(trial.trial_id, 0)
                assert len(trial.curve) <= planned.epochs_each + more
                assert trial.finished >= more
                if more:
                    assert run.reasons[trial.trial_id] == f"finished its {trial.finished} epochs"
            resumed = self.make()
            replay(resumed, [Exchange.of(json.loads(json.dumps(each.document()))) for each in run.log])
            assert resumed.done

    def test_it_ends_when_time_is_over(self) -> None:
        """Report that time is over after a few calls: all live configurations stop with that reason."""
        run = Rehearsal(self.make(), self.measure).run(calls=4)
        if not run.procedure.done:
            run.tell([OutOfTime("the money is spent")])
            assert "the money is spent" in " ".join(run.reasons.values())
        assert run.procedure.done
        assert run.granted.keys() == run.reasons.keys()
        assert run.procedure.ask([OutOfTime()], idle=5) == run.procedure.ask([], idle=5) == []

    def test_limits_hold(self) -> None:
        """Limit configurations, epochs and both; shortened configurations end with the reason."""
        for configurations, epochs in ((1, None), (3, None), (None, 1), (None, 7), (None, 20), (4, 9)):
            for seed in _SEEDS:
                limits = Limits(configurations or 40, epochs)
                run = self.rehearse(seed, limits=limits)
                assert len(run.granted) <= (configurations or 40)
                assert epochs is None or sum(run.finished.values()) <= epochs
                assert run.granted.keys() == run.reasons.keys()

    def test_stoppers_are_asked(self) -> None:
        """Without progress, no configuration trains longer than the patience."""
        run = self.rehearse(3, lambda _, __: 0.5, stoppers=[Patience(1)])
        assert max(run.finished.values()) <= 2  # the first epoch, and one without progress
        assert run.granted.keys() == run.reasons.keys()


def _clones(decision: object, every: int) -> bool:
    return (
        isinstance(decision, Start) and decision.source is not None and int(decision.source.trial_id[1:]) % every == 0
    )
