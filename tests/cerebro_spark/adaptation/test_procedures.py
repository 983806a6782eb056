"""Searches that drive campaigns: who stops leaves its group, who comes late joins one, and cycles search elsewhere."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import campaign, checkpoint, frame, looped, network, records
from pyspark import cloudpickle
from searches import disk_full_after

from cerebro_spark import ASHA, PBT, Hyperband, ModelTrainer, RandomSearch
from optimizer.space import choice, log_uniform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cerebro_spark.adaptation import Cycle
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

pytestmark = pytest.mark.extended

FIRST, SECOND = records(0, 60), records(60, 90)
RATE = log_uniform(1e-3, 1e-1)

SEARCHES = {
    "ASHA": partial(ASHA, max_epochs=4, eta=2, concurrency=4, max_configurations=6),
    "Hyperband": partial(Hyperband, max_epochs=3, eta=3),
    "random": partial(RandomSearch, num_configurations=4, num_epochs=2),
    "TPE": partial(RandomSearch, num_configurations=6, num_epochs=1, concurrency=4, sampler="tpe"),
    "PBT": partial(PBT, population=4, num_epochs=3, only=["lr"]),
}


def _wider(params: dict[str, Any]) -> ModelTrainer:
    """Another head, at another batch size, over the same trunk."""
    net = network(params)
    net[-1] = torch.nn.Sequential(torch.nn.Linear(net[-1].in_features, 8), torch.nn.Linear(8, 3))
    head = [weight for weight in net.parameters() if weight.requires_grad]
    loss = torch.nn.CrossEntropyLoss()
    return ModelTrainer(
        model=net, optimizer=torch.optim.SGD(head, params["lr"]), loss=loss, metrics=["accuracy"], batch_size=16
    )


def check_plain(cycle: Cycle) -> None:
    """Trials that began anew equal those of a plain loop, bit for bit, whatever the members of their group."""
    plain = [trial for trial in cycle._trials if trial.source is None]
    assert plain
    for trial in plain:
        truth, _ = looped(cycle, trial.trial_id)
        for name, value in checkpoint(cycle, trial.trial_id)["model"].items():
            np.testing.assert_array_equal(value.numpy(), truth[name], err_msg=f"{trial.trial_id} {name}")


# Members leave their groups in this one; the others are variations of it.
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "ASHA" else pytest.mark.slow) for name in SEARCHES]
)
def test_two_cycles_of_a_search(spark: SparkSession, store: Store, name: str) -> None:
    """The second one searches elsewhere, with another head: of its layers one lies on disk already."""
    search = SEARCHES[name]
    before = campaign(spark, store, search=search, search_space={"lr": RATE, "layers": choice([2, 4])})
    first = before.fit(frame(spark, *FIRST))
    assert {trial.status for trial in first.trials} == {"finished"}, [trial.traceback for trial in first.trials]
    assert first.materialised.trunk_rows == 60
    assert any(event.members > 1 for event in first.outcome.events), "no trials trained together"
    check_plain(first)
    lengths = {len(trial.history) for trial in first.trials}
    assert (len(lengths) > 1) == (name in {"ASHA", "Hyperband", "PBT"})

    another = campaign(spark, store, search=search, search_space={"lr": RATE, "layers": choice([4])}, trainer_fn=_wider)
    assert another.run_ids == before.run_ids
    second = another.fit(frame(spark, *SECOND))
    assert {trial.status for trial in second.trials} == {"finished"}, [trial.traceback for trial in second.trials]
    assert sum(shard.rows for shard in second.prepared.shards) == 90
    if len(first.plan.materialised) == 2:
        assert second.materialised.trunk_rows == 30, "the others lie on disk"
    assert second.plan.materialised == first.plan.materialised[1:]
    assert any(event.members > 1 for event in second.outcome.events), "no trials trained together"


def test_a_clone_of_another_shape_ends_alone(spark: SparkSession, store: Store) -> None:
    """What shapes the network changes in a clone: it takes no state, says why, and its group goes on."""
    search = partial(PBT, population=4, num_epochs=3, only=["layers"], resample=1.0, quantile=0.5)
    space = {"lr": RATE, "layers": choice([2, 4])}
    # By the clock another order of visits would give other scores, and with them other clones: none of another shape.
    made = campaign(spark, store, search=search, search_space=space, schedule="fixed")
    cycle = made.fit(frame(spark, *FIRST))
    clones = [trial for trial in cycle._trials if trial.source is not None]
    params = {trial.trial_id: trial.params for trial in cycle._trials}
    assert clones
    for clone in clones:
        same = clone.params["layers"] == params[clone.source.trial_id]["layers"]
        assert (clone.status == "finished") == same
        if not same:
            assert "StateError" in clone.traceback
    assert any(clone.params["layers"] != params[clone.source.trial_id]["layers"] for clone in clones)
    check_plain(cycle)


@pytest.mark.slow
def test_a_search_that_broke_off_goes_on(spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its trials are those of plain loops all the same."""
    space = {"lr": RATE, "layers": choice([2, 4])}
    made = partial(campaign, spark, store, search=SEARCHES["random"], search_space=space)
    with disk_full_after(3, monkeypatch), pytest.raises(Exception, match="the disk is full"):
        made().fit(frame(spark, *FIRST))
    cycle = made().resume()
    assert [trial.status for trial in cycle.trials] == ["finished"] * 4
    check_plain(cycle)
