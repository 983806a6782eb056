from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from campaigns import (
    BATCH,
    CLASSES,
    SLOW_WORKER,
    WIDE,
    campaign,
    check_against_plain_loop,
    checkpoint,
    frame,
    learned,
    looped,
    network,
    records,
    trainer,
)
from pyspark import cloudpickle
from searches import disk_full_after

from cerebro_spark import Adaptation, Hyperband, ModelTrainer, TunedModel
from cerebro_spark.adaptation._rates import Rates
from cerebro_spark.errors import (
    ColumnError,
    EmptyInputError,
    InvalidArgumentError,
    NoModelError,
    RunError,
    TrainerError,
)
from cerebro_spark.hopper import Journal
from optimizer.memory import InfeasiblePlanError
from udfs.adaptation import FeatureStore
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from cerebro_spark.adaptation import Cycle

cloudpickle.register_pickle_by_value(sys.modules[__name__])

FIRST = records(0, 90)
# New records; a label that was wrong; a record that changed; one that comes again as it was.
CORRECTED = (3, FIRST[3][1], (FIRST[3][2] + 1) % CLASSES)
CHANGED = (5, [0.5] * WIDE, 1)
SECOND = [*records(90, 140), CORRECTED, CHANGED, FIRST[7]]


@dataclass(frozen=True)
class Cycles:
    """Two cycles of a campaign, whose candidates trained together."""

    store: Store
    first: Cycle
    second: Cycle
    campaign: Adaptation


@pytest.fixture(scope="module")
def cycles(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Cycles:
    store = Store.from_uri(str(tmp_path_factory.mktemp("campaign")))
    made = campaign(spark, store, replicas=1)
    return Cycles(store, made.fit(frame(spark, *FIRST)), made.fit(frame(spark, *SECOND)), made)


@pytest.mark.connect
def test_two_cycles_equal_a_plain_loop(cycles: Cycles) -> None:
    for cycle, rows in ((cycles.first, 90), (cycles.second, 140)):
        assert len(cycle.trials) == 4
        assert sum(shard.rows for shard in cycle.prepared.shards) == rows
        assert any(event.members > 1 for event in cycle.outcome.events), "no trials trained together"
        check_against_plain_loop(cycle)
    assert [line.run for line in cycles.second.cycles] == list(cycles.campaign.run_ids)


@pytest.mark.slow
def test_what_is_learned_does_not_depend_on_replicas(spark: SparkSession, tmp_path: Path) -> None:
    """Workers of one machine read all shards, so that groups stay where they are; what they learn is the same."""
    found = {}
    for replicas in (None, 1):
        made = campaign(spark, tmp_path / str(replicas), name="same", replicas=replicas, schedule="fixed")
        cycle = made.fit(frame(spark, *FIRST))
        assert Journal(made.store, cycle.run_id).spec().replicas == (replicas or 2)
        visits = {(event.worker, event.partition) for event in cycle.outcome.events}
        # Which worker visits which of two shards is a matter of time; who has one alone has no choice.
        assert max(Counter(worker for worker, _ in visits).values()) <= (replicas or 2)
        found[replicas] = {trial.trial_id: trial.digests[trial.version] for trial in cycle._trials}
    assert found[None] == found[1]


def test_a_cycle_is_resumed_with_the_replicas_that_it_began_with(spark: SparkSession, tmp_path: Path) -> None:
    begun = campaign(spark, tmp_path, replicas=1).fit(frame(spark, *FIRST))
    resumed = campaign(spark, tmp_path).resume()
    assert (resumed.run_id, resumed.spec.replicas) == (begun.run_id, 1)
    with pytest.raises(RunError, match="replicas=1, and this search replicas=2"):
        campaign(spark, tmp_path, replicas=2).resume()


@pytest.mark.connect
def test_a_record_passes_the_trunk_once(cycles: Cycles) -> None:
    """Of the second batch fifty are new, one changed, one has another label, one is the same."""
    assert cycles.first.plan is not None
    assert len(cycles.first.plan.materialised) == 2
    assert [each.materialised.trunk_rows for each in (cycles.first, cycles.second)] == [90, 51]
    assert [line.trunk_rows for line in cycles.second.cycles] == [90, 51]
    assert [line.records for line in cycles.second.cycles] == [90, 140]


def test_predicted_seconds_beside_measured_ones(cycles: Cycles) -> None:
    """With rates of the user, which stay however far off they are."""
    for cycle in (cycles.first, cycles.second):
        costs = cycle.costs
        assert costs is not None
        assert costs.measured is not None
        assert costs.given
        assert costs.rates == Rates.of(SLOW_WORKER)
        assert cycle.plan is not None
        assert cycle.plan.costs.flops_per_second == SLOW_WORKER.flops_per_second
        done = cycle.materialised
        # Multiplications and additions of both layers, at least, for each record that is new.
        assert done.flops >= done.trunk_rows * 2 * WIDE * (WIDE * 16 + 16 * 96)
        assert costs.predicted.materialising == done.flops / SLOW_WORKER.flops_per_second / 2
        assert costs.measured.materialising == done.busy_seconds / 2
        trained = [event.seconds for event in cycle.outcome.events if event.kind == "train"]
        assert sum(trained) / 2 <= costs.measured.training <= sum(trained)
        assert "costs= says otherwise" in cycle.explain()


def test_only_what_learns_hops(cycles: Cycles) -> None:
    """A hop takes weights and buffers that change, and Adam's two slots of each weight: within 2 %."""
    for trial in cycles.second._trials:
        head = network(trial.params)[trial.params["layers"] :]
        slots = 2 * sum(weight.nbytes for weight in head.parameters())
        changing = sum(tensor.nbytes for tensor in head.state_dict().values())
        random = sum(tensor.nbytes for tensor in _tensors(checkpoint(cycles.second, trial.trial_id)["random"]))
        exact = changing + slots + random
        assert exact <= trial.state_bytes <= 1.02 * exact
        hops = [event.fetched_bytes for event in cycles.second.outcome.events if event.trial_id == trial.trial_id]
        assert any(hops)
        assert all(exact <= hop <= 1.02 * exact for hop in hops if hop)
        assert set(trial.stored) == {trial.version}, "a state within the epochs went to the store"


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [each for one in value.values() for each in _tensors(one)]
    if isinstance(value, (list, tuple)):
        return [each for one in value for each in _tensors(one)]
    return [value] if hasattr(value, "nbytes") else []


def test_the_best_model_predicts_saves_and_loads(cycles: Cycles, spark: SparkSession, tmp_path: Path) -> None:
    new = records(500, 520)
    best = cycles.second.best
    truth, _ = looped(cycles.second, best.trial_id)
    net = network(best.params)
    net.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in truth.items()})
    with torch.no_grad():
        expected = net.eval()(torch.tensor([x for _, x, _ in new], dtype=torch.float32)).argmax(1).tolist()
    model = cycles.second.best_model
    model.save(str(tmp_path / "model"))
    table = frame(spark, *new).coalesce(1)
    for one in (model, TunedModel.load(str(tmp_path / "model"))):
        found = {row["id"]: int(row["prediction"]) for row in one.transform(table).select("id", "prediction").collect()}
        assert [found[number] for number, _, _ in new] == expected


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("least_confidence", marks=pytest.mark.slow),
        pytest.param("margin", marks=pytest.mark.connect),
        "entropy",
    ],
)
def test_a_pool_is_ranked_by_what_the_best_model_is_unsure_of(cycles: Cycles, spark: SparkSession, how: str) -> None:
    pool = frame(spark, *records(600, 612)).drop("y")
    chances = {
        row["id"]: np.sort(row["probability"].toArray())
        for row in cycles.second.best_model.transform(pool).select("id", "probability").collect()
    }
    expected = {
        "least_confidence": {number: 1 - of[-1] for number, of in chances.items()},
        "margin": {number: 1 - of[-1] + of[-2] for number, of in chances.items()},
        "entropy": {number: -float((of * np.log(of)).sum()) for number, of in chances.items()},
    }[how]
    ranked = cycles.campaign.score(pool, how).select("id", "score").collect()
    assert [row["id"] for row in ranked] == sorted(expected, key=expected.__getitem__, reverse=True)
    np.testing.assert_allclose([row["score"] for row in ranked], sorted(expected.values(), reverse=True), rtol=1e-5)


@pytest.mark.connect
def test_a_pool_by_lot_is_the_same_lot_again(cycles: Cycles, spark: SparkSession) -> None:
    pool = frame(spark, *records(600, 640)).drop("y")
    drawn = [row["id"] for row in cycles.campaign.score(pool, "random").collect()]
    assert drawn == [row["id"] for row in cycles.campaign.score(pool.repartition(3), "random").collect()]
    assert drawn != sorted(drawn)
    with pytest.raises(
        InvalidArgumentError, match=r"how must be one of .*, random, got 'margins'; did you mean 'margin'\?"
    ):
        cycles.campaign.score(pool, "margins")
    with pytest.raises(NoModelError, match=r"fit\(batch\)"):
        campaign(spark, cycles.store, name="new").score(pool)


@pytest.mark.connect
def test_another_object_goes_on_with_the_campaign(cycles: Cycles, spark: SparkSession) -> None:
    """A cycle that is over is read again: nothing is computed or trained."""
    again = campaign(spark, cycles.store)
    assert again.run_ids == cycles.campaign.run_ids
    cycle = again.resume()
    assert cycle.run_id == cycles.second.run_id
    assert cycle.materialised.trunk_rows == 0
    score = {trial.trial_id: (trial.metric, trial.history) for trial in cycle.trials}
    assert score == {trial.trial_id: (trial.metric, trial.history) for trial in cycles.second.trials}
    assert [line.run for line in again.resume().cycles] == [cycle.run_id]
    with pytest.raises(RunError, match="a replay must repeat a run of a search"):
        cycle.replay(backend=again.backend)
    with pytest.raises(RunError, match=r"name must be that of an adaptation with a cycle .*got 'other'.*fit\(batch\)"):
        campaign(spark, cycles.store, name="other").resume()


# Bad input ------------------------------------------------------------------------------------------------------------


def _random_trunk(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    torch.nn.init.normal_(made.model[0].weight)
    return made


def _all_frozen(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    made.model.requires_grad_(requires_grad=False)
    return made


def _without_epochs(params: dict[str, Any]) -> ModelTrainer:
    net = network(params)
    head = [weight for weight in net.parameters() if weight.requires_grad]
    return ModelTrainer(
        model=net, optimizer=torch.optim.SGD(head, lr=0.1), loss=torch.nn.CrossEntropyLoss(), batch_size=BATCH
    )


def _raises(params: dict[str, Any]) -> ModelTrainer:
    raise RuntimeError(f"no weights on this disk for {params}")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"trainer_fn": _random_trunk}, InvalidArgumentError, "same frozen weights.*seed them"),
        ({"trainer_fn": _all_frozen}, TrainerError, "learn|requires.*grad"),
        (
            {"trainer_fn": _without_epochs},
            InvalidArgumentError,
            r"epochs of the trainer must be set .*ModelTrainer\(\.\.\., epochs=5\)",
        ),
        ({"trainer_fn": _raises}, TrainerError, "no weights on this disk"),
        ({"memory_bytes": 1 << 20}, InfeasiblePlanError, "memory_bytes"),
    ],
    ids=["a trunk drawn at random", "nothing learns", "no epochs", "a trainer_fn that raises", "too little memory"],
)
def test_bad_trainers_are_refused_before_training(
    cycles: Cycles,
    spark: SparkSession,
    no_job: Callable[[], AbstractContextManager[None]],
    settings: dict[str, Any],
    error: type[Exception],
    message: str,
) -> None:
    """The data are those of the first cycles, so that no job is needed to find it out."""
    bad = campaign(spark, cycles.store, **settings)
    with no_job(), pytest.raises(error, match=message):
        bad.explain()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"storage_dtype": "float16"}, "storage_dtype must be one of float32, bfloat16, got 'float16'"),
        ({"id_column": "y"}, "id_column must be a column apart from the labels"),
        ({"max_records": 0}, "max_records must be .*, got 0"),
        ({"disk_bytes": -1}, "disk_bytes must be .*, got -1"),
        ({"memory_bytes": True}, "memory_bytes must be .*, got True"),
        ({"name": "../up"}, "name"),
        ({"materialize": False}, "materialise"),
        ({"bytes_per_second": 0}, "bytes_per_second must be .*got 0"),
        ({"schedule": "fast"}, "schedule must be one of .*, fixed, got 'fast'"),
        ({"checkpoints": "never"}, "checkpoints must be one of visits, epochs, end, got 'never'"),
        ({"search": "hyperband"}, "search must be a function or None, got 'hyperband'"),
        ({"search": dict}, r"search must return a search, as partial\(Hyperband, max_epochs=9\) does, got dict"),
        ({"search": Hyperband}, "max_epochs"),
        ({"search_space": {}}, "search_space|configuration"),
        ({"trainer_fn": "mine"}, "trainer_fn must be a function, got 'mine'"),
    ],
)
def test_bad_settings_are_refused_when_they_are_given(
    spark: SparkSession, store: Store, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises((InvalidArgumentError, TypeError), match=message):
        campaign(spark, store, **settings)


@pytest.mark.parametrize(
    ("rows", "schema", "error", "message"),
    [
        ([], None, EmptyInputError, "no complete row|no row"),
        pytest.param(
            *([*records(200, 204), *records(203, 205)], None, ColumnError, "ids come twice.*203"),
            marks=pytest.mark.connect,
        ),
        ([(200, [1.0] * (WIDE + 1), 0)], None, ColumnError, "'x' has tensors of .*first batch"),
        ([(200, [1.0] * WIDE)], "id long, x array<double>", ColumnError, "y"),
        ([(200, "no", 1)], "id long, x string, y int", Exception, "x"),
    ],
    ids=["empty", "an id twice", "another shape", "no label", "another type"],
)
def test_bad_batches_leave_the_campaign_as_it_was(
    cycles: Cycles, spark: SparkSession, rows: list[Any], schema: str | None, error: type[Exception], message: str
) -> None:
    again = campaign(spark, cycles.store)
    batch = spark.createDataFrame(rows, schema or "id long, x array<double>, y int")
    with pytest.raises(error, match=message):
        again.fit(batch)
    assert again.run_ids == campaign(spark, cycles.store).run_ids == cycles.campaign.run_ids


def test_no_disk_stores_nothing(cycles: Cycles, spark: SparkSession) -> None:
    """The plan says so; that such a campaign trains is another test."""
    text = campaign(spark, cycles.store, disk_bytes=0).explain()
    assert "materialised: nothing" in text or "materialised: none" in text, text


def _nothing_frozen(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    made.model.requires_grad_(requires_grad=True)
    optimizer = torch.optim.SGD(made.model.parameters(), lr=params["lr"])
    return ModelTrainer(
        model=made.model, optimizer=optimizer, loss=made.loss, metrics=["accuracy"], batch_size=BATCH, epochs=1
    )


@pytest.mark.slow
def test_a_network_of_which_nothing_is_frozen_trains_whole(spark: SparkSession, store: Store) -> None:
    made = campaign(spark, store, trainer_fn=_nothing_frozen, search_space={"lr": [0.1], "layers": [2]}, costs=None)
    cycle = made.fit(frame(spark, *FIRST))
    (trial,) = cycle.trials
    assert trial.status == "finished", trial.traceback
    assert cycle.materialised.trunk_rows == 0
    note = "1 of 1 configurations train whole: nothing below what learns is frozen"
    assert note in cycle.explain()
    assert note in made.explain()
    assert set(learned(cycle)[trial.trial_id]) == set(network(trial.params).state_dict())


@pytest.mark.slow
def test_a_bad_first_batch_is_no_obstacle(spark: SparkSession, store: Store) -> None:
    """A campaign whose trainers were refused begins with another batch, once they are repaired."""
    space = {"lr": [0.01], "layers": [2]}
    with pytest.raises(InvalidArgumentError, match="seed them"):
        campaign(spark, store, trainer_fn=_random_trunk, search_space=space).fit(frame(spark, *FIRST))
    repaired = campaign(spark, store, search_space=space)
    assert repaired.run_ids == ()
    assert "c000" in repaired.explain(frame(spark, *FIRST[:60]))
    assert "c000" in repaired.explain(frame(spark, *FIRST[:70]))
    cycle = repaired.fit(frame(spark, *FIRST[:80]))
    assert sum(shard.rows for shard in cycle.prepared.shards) == 80
    check_against_plain_loop(cycle)


# Other ways to train the same -----------------------------------------------------------------------------------------


@pytest.mark.extended
def test_alone_is_as_together(spark: SparkSession, store: Store) -> None:
    """The same visits, bits and losses: who trains together changes nothing."""
    alone = campaign(spark, store, fuse=False, schedule="fixed")
    together = campaign(spark, store, name="together", schedule="fixed")
    one, two = (made.fit(frame(spark, *FIRST)) for made in (alone, together))
    assert not any(event.members > 1 for event in one.outcome.events)
    assert any(event.members > 1 for event in two.outcome.events)
    check_against_plain_loop(one)
    check_against_plain_loop(two)
    found, expected = ({each.trial_id: each for each in cycle.trials} for cycle in (one, two))
    states = learned(one), learned(two)
    assert found.keys() == expected.keys()
    for key, trial in found.items():
        assert (trial.visits, trial.history) == (expected[key].visits, expected[key].history)
        for name, value in states[0][key].items():
            np.testing.assert_array_equal(value, states[1][key][name])


@pytest.mark.extended
@pytest.mark.parametrize(
    "settings",
    [pytest.param({"materialise": False}, marks=pytest.mark.slow), {"disk_bytes": 0}],
    ids=["off", "no disk"],
)
def test_recomputed_features_train_alike(spark: SparkSession, store: Store, settings: dict[str, Any]) -> None:
    """The trunk runs on the shuffled batches, whose bits are not those of the stored ones: the first losses agree."""
    space = {"lr": [0.01], "layers": [2, 4]}
    bare = campaign(spark, store, search_space=space, **settings)
    cycle = bare.fit(frame(spark, *FIRST))
    assert FeatureStore(store, "campaign").used_bytes() == 0
    assert cycle.materialised.trunk_rows == 0
    for trial in cycle.trials:
        assert trial.status == "finished", trial.traceback
        _, losses = looped(cycle, trial.trial_id)
        assert abs(trial.history[0]["loss"] - losses[0]) < 1e-4


@pytest.mark.extended
def test_a_driver_that_stopped_in_a_cycle_goes_on(
    spark: SparkSession, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {"lr": [0.01], "layers": [2, 4]}
    with disk_full_after(2, monkeypatch), pytest.raises(Exception, match="the disk is full"):
        campaign(spark, store, search_space=space).fit(frame(spark, *FIRST))
    cycle = campaign(spark, store, search_space=space).resume()
    assert cycle.materialised.trunk_rows == 0
    check_against_plain_loop(cycle)


@pytest.mark.extended
def test_a_procedure_stops_members_of_groups(spark: SparkSession, store: Store) -> None:
    """Hyperband's first bracket begins with three for an epoch, and one of them goes on."""
    search = partial(Hyperband, max_epochs=3, eta=3)
    made = campaign(spark, store, search=search, search_space={"lr": [0.03, 0.01, 0.003], "layers": [2, 4]})
    cycle = made.fit(frame(spark, *FIRST))
    assert all(trial.status == "finished" for trial in cycle.trials), [trial.traceback for trial in cycle.trials]
    assert {len(trial.history) for trial in cycle.trials} == {1, 3}
    assert any(event.members > 1 for event in cycle.outcome.events)
    check_against_plain_loop(cycle)


def _another_trunk(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    with torch.no_grad():
        made.model[0].weight.mul_(0.5)
    return made


@pytest.mark.extended
def test_what_is_stored_is_of_these_weights_and_records(spark: SparkSession, store: Store) -> None:
    """A corrected label has nothing computed; another trunk under the same name has all records pass."""
    space = {"lr": [0.01], "layers": [4]}
    made = campaign(spark, store, search_space=space)
    assert made.fit(frame(spark, *FIRST)).materialised.trunk_rows == 90
    label = made.fit(frame(spark, CORRECTED))
    assert label.materialised.trunk_rows == 0
    check_against_plain_loop(label)
    # The same batch again has nothing new, and is a cycle all the same.
    again = made.fit(frame(spark, CORRECTED))
    assert again.prepared == label.prepared
    check_against_plain_loop(again)
    other = campaign(spark, store, search_space=space, trainer_fn=_another_trunk).fit(frame(spark, *records(90, 94)))
    assert other.materialised.trunk_rows == 94
    assert FeatureStore(store, "campaign").expressions() == tuple(
        other.plan.trunk.expression(name) for name in other.plan.materialised
    )


@pytest.mark.extended
def test_a_full_disk_stores_less_and_goes_on(
    spark: SparkSession, store: Store, small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    """The features' folder is on a disk that the first plan does not fit on."""
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "features").symlink_to(small_disk("64k"))
    cycle = campaign(spark, store, search_space={"lr": [0.01], "layers": [2, 4]}).fit(frame(spark, *FIRST))
    assert [trial.status for trial in cycle.trials] == ["finished"] * 2
    assert cycle.plan is not None
    assert cycle.plan.materialised == ()
    assert FeatureStore(store, "campaign").used_bytes() == 0


def _all_diverge(params: dict[str, Any]) -> ModelTrainer:
    made = trainer(params)
    for group in made.optimizer.param_groups:
        group["lr"] = float("inf")
    return made


@pytest.mark.extended
def test_a_cycle_in_which_all_fail_is_told_of(spark: SparkSession, store: Store) -> None:
    """Its result says why each failed, as that of any search does."""
    made = campaign(spark, store, trainer_fn=_all_diverge, search_space={"lr": [0.1], "layers": [2]})
    cycle = made.fit(frame(spark, *FIRST))
    (trial,) = cycle.trials
    assert trial.status == "diverged"
    with pytest.raises(NoModelError):
        _ = cycle.best_model


ANOTHER_PROCESS = """
import sys
sys.path[:0] = {paths!r}
from sessions import new_session
from campaigns import campaign
spark = new_session()
cycle = campaign(spark, {uri!r}).resume()
print(cycle.run_id, repr(cycle.best_score), flush=True)
spark.stop()
"""


@pytest.mark.slow
def test_another_process_goes_on(cycles: Cycles) -> None:
    code = ANOTHER_PROCESS.format(paths=sys.path, uri=cycles.store.uri)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-2:] == [cycles.second.run_id, repr(cycles.second.best_score)]
