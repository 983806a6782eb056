"""Cycles that begin with the weights of the last one."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import campaign, frame, learned, looped, records, trainer
from pyspark import cloudpickle
from searches import disk_full_after

from cerebro_spark import RandomSearch
from optimizer.space import log_uniform

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from cerebro_spark import ModelTrainer
    from cerebro_spark.adaptation import Cycle
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIRST, SECOND = records(0, 60), records(60, 90)


def check_begun_with(cycle: Cycle, begins: Mapping[tuple[float, int], Mapping[str, Any] | None]) -> None:
    """Every bit is that of a plain loop that begins with such weights, by rate and depth; ``None`` are initial ones."""
    found = learned(cycle)
    assert {(trial.params["lr"], trial.params["layers"]) for trial in cycle.trials} == set(begins)
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        truth, _ = looped(cycle, trial.trial_id, begins[trial.params["lr"], trial.params["layers"]])
        for name, value in found[trial.trial_id].items():
            np.testing.assert_array_equal(value, truth[name], err_msg=f"{trial.trial_id} {name}")


def ended(cycle: Cycle) -> dict[tuple[float, int], Mapping[str, Any]]:
    states = learned(cycle)
    return {(trial.params["lr"], trial.params["layers"]): states[trial.trial_id] for trial in cycle.trials}


def test_a_configuration_goes_on_from_its_weights_and_a_new_one_begins(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver stops in the second cycle, in which one configuration is new and another one gone."""
    first = campaign(spark, store, warm_start=True, search_space={"lr": [0.01, 0.001], "layers": [2]})
    before = first.fit(frame(spark, *FIRST))
    assert not any("weights" in note for note in before.notes), "nothing to begin with"
    check_begun_with(before, {(0.01, 2): None, (0.001, 2): None})
    weights = ended(before)
    space = {"lr": [0.01], "layers": [4, 2]}
    again = partial(campaign, spark, store, search_space=space)
    with disk_full_after(3, monkeypatch), pytest.raises(Exception, match="the disk is full"):
        again(warm_start=True).fit(frame(spark, *SECOND))
    # It goes on as it began, whatever is said now.
    after = again().resume()
    check_begun_with(after, {(0.01, 4): None, (0.01, 2): weights[0.01, 2]})
    assert "1 of 2 configurations began with the weights that they had at the end of run campaign-0000" in str(
        after.notes
    )


def _other_shapes(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    if params["layers"] == 2:
        made.model[-1] = torch.nn.Linear(made.model[-1].in_features, 5)
        made.optimizer.param_groups[0]["params"][-2:] = list(made.model[-1].parameters())
    return made


def _other_trunk(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    if params["layers"] == 4:
        with torch.no_grad():
            made.model[2].weight.mul_(0.5)
    return made


@pytest.mark.extended
@pytest.mark.parametrize(
    ("changed", "kept"), [pytest.param(_other_shapes, 4, marks=pytest.mark.slow), (_other_trunk, 2)]
)
def test_another_model_begins_anew(spark: SparkSession, store: Store, changed: Any, kept: int) -> None:
    space = {"lr": [0.01], "layers": [2, 4]}
    before = campaign(spark, store, search_space=space).fit(frame(spark, *FIRST))
    made = campaign(spark, store, search_space=space, trainer_fn=changed, warm_start=True)
    after = made.fit(frame(spark, *SECOND))
    assert [trial.status for trial in after.trials] == ["finished"] * 2
    assert "1 of 2 configurations began with" in str(after.notes)
    weights = ended(before)[0.01, kept]
    (trial,) = (each for each in after.trials if each.params["layers"] == kept)
    truth, _ = looped(after, trial.trial_id, weights)
    for name, value in learned(after)[trial.trial_id].items():
        np.testing.assert_array_equal(value, truth[name])


@pytest.mark.slow
def test_a_configuration_that_a_search_draws_again_goes_on(spark: SparkSession, store: Store) -> None:
    """One seed draws the same two; one of another space is new."""
    space = {"lr": log_uniform(1e-3, 1e-1), "layers": [2]}
    search = partial(RandomSearch, num_configurations=2, num_epochs=1)
    made = campaign(spark, store, search=search, search_space=space)
    before = made.fit(frame(spark, *FIRST))
    made.warm_start = True
    after = made.fit(frame(spark, *SECOND))
    assert "2 of 2 configurations began with" in str(after.notes)
    check_begun_with(after, ended(before))
    other = campaign(spark, store, search=search, search_space=space | {"layers": [4]}, warm_start=True)
    assert "0 of 2 configurations began with" in str(other.fit(frame(spark, *records(90, 95))).notes)
