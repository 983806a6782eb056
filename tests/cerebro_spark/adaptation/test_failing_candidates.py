"""Candidates that cannot be opened or trained: the others train, and a cycle is refused only if none can."""

from __future__ import annotations

import re
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from campaigns import campaign, frame, records, trainer
from pyspark import cloudpickle

from cerebro_spark import ModelTrainer, RandomSearch
from cerebro_spark.errors import InvalidArgumentError, TrainerError
from cerebro_spark.hopper import _trial_limit
from optimizer.space import choice, log_uniform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark.adaptation import Cycle
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIRST, SECOND = records(0, 60), records(60, 90)


class _Fails(torch.nn.Module):
    """A layer that raises in training alone."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise ValueError("no step")
        return x


def failing(params: dict[str, Any]) -> ModelTrainer:
    how = params.get("how", "")
    if how == "raises":
        raise ValueError("no such network")
    if how == "hangs":
        while True:
            time.sleep(0.05)
    made: Any = trainer({"lr": 0.01} | params)
    if how == "nothing learns":
        made.model.requires_grad_(requires_grad=False)
    if how == "step":
        made.model.append(_Fails())
    if how == "classes":
        made.model[-1] = torch.nn.Linear(made.model[-1].in_features, 2)
        made.optimizer.param_groups[0]["params"][-2:] = list(made.model[-1].parameters())
    if how == "random":
        torch.nn.init.normal_(made.model[0].weight)
    return "a model" if how == "another type" else made  # type: ignore[return-value]


FAILURES = {
    "raises": "ValueError: no such network",
    "another type": "trainer_fn must return a ModelTrainer",
    "nothing learns": "learn|requires.*grad|trainable",
    "step": "no step",
    "classes": "label|class|IndexError",
}


def space(how: str) -> list[dict[str, Any]]:
    good = [{"lr": lr, "layers": layers} for lr in (0.01, 0.001) for layers in (2, 4)]
    return [{"layers": 2, "how": how}, *good]


OTHERS = ("another type", "nothing learns", "classes")

ENDS = {"c000": "raised"} | {f"c00{place}": "finished" for place in range(1, 5)}


def statuses(cycle: Cycle) -> dict[str, str]:
    return {trial.trial_id: trial.status for trial in cycle.trials}


@pytest.mark.parametrize("how", ["raises", "step", *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)])
def test_a_candidate_that_fails_ends_with_its_reason_and_the_others_train(
    spark: SparkSession, store: Store, how: str
) -> None:
    made = campaign(spark, store, trainer_fn=failing, search_space=space(how))
    cycle = made.fit(frame(spark, *FIRST))
    assert statuses(cycle) == ENDS
    assert re.search(FAILURES[how], next(trial for trial in cycle.trials if trial.trial_id == "c000").traceback)
    assert any(event.members > 1 for event in cycle.outcome.events), "the others train together"
    if how in {"raises", "another type", "nothing learns"}:
        note = next(note for note in cycle.notes if "'how'" in note)
        assert f"configuration {space(how)[0]} is in no group" in note
        assert note in cycle.explain()
    # A later cycle tries it again, and another process resumes the last cycle.
    assert statuses(made.fit(frame(spark, *SECOND))) == ENDS
    again = campaign(spark, store, trainer_fn=failing, search_space=space(how)).resume()
    assert statuses(again) == ENDS


@pytest.mark.parametrize("how", FAILURES)
def test_a_cycle_is_refused_if_no_candidate_can_train(spark: SparkSession, store: Store, how: str) -> None:
    made = campaign(
        spark, store, trainer_fn=failing, search_space=[{"layers": 2, "how": how}, {"layers": 4, "how": how}]
    )
    with pytest.raises(Exception, match=FAILURES[how]):
        made.fit(frame(spark, *FIRST))
    assert made.run_ids == ()


def test_a_candidate_that_hangs_is_in_no_group(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_trial_limit, "_LEAST_S", 0.0)
    made = campaign(spark, store, trainer_fn=failing, search_space=space("hangs"), unit_timeout_s=3.0)
    text = made.explain(frame(spark, *FIRST))
    assert f"configuration {space('hangs')[0]} is in no group" in text
    assert "unit_timeout_s=3" in text
    alone = campaign(
        spark, store, trainer_fn=failing, search_space=[{"layers": 2, "how": "hangs"}], unit_timeout_s=0.3, name="alone"
    )
    with pytest.raises(TrainerError, match=r"unit_timeout_s=0\.3"):
        alone.explain(frame(spark, *FIRST))


def test_random_frozen_weights_of_one_candidate_are_refused(spark: SparkSession, store: Store) -> None:
    """It would train, and share no layer with the others."""
    with pytest.raises(InvalidArgumentError, match="same frozen weights"):
        campaign(spark, store, trainer_fn=failing, search_space=space("random")).explain(frame(spark, *FIRST))


@pytest.mark.extended
def test_candidates_of_a_search_that_fail(spark: SparkSession, store: Store) -> None:
    search = partial(RandomSearch, num_configurations=6, num_epochs=1)
    drawn = {"lr": log_uniform(1e-3, 1e-1), "layers": choice([2, 4]), "how": choice(["", "raises", "step"])}
    cycle = campaign(spark, store, trainer_fn=failing, search_space=drawn, search=search).fit(frame(spark, *FIRST))
    ends = {trial.params["how"]: trial.status for trial in cycle.trials}
    assert ends == {"": "finished", "raises": "raised", "step": "raised"}
