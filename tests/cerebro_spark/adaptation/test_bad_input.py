"""What a campaign refuses, before anything is computed for it, and what it says."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import torch
from campaigns import BATCH, CLASSES, NARROW, WIDE, campaign, frame, records, trainer, trunk_of
from pyspark import cloudpickle

from cerebro_spark import Hyperband, ModelTrainer
from cerebro_spark.errors import EmptyInputError, InvalidArgumentError, LabelError, RunError, TrainerError
from cerebro_spark.hopper import Lease
from optimizer.memory import InfeasiblePlanError
from optimizer.space import choice
from udfs.adaptation import FeatureStore
from udfs.store import StoreFullError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPACE = {"lr": [0.01], "layers": [2]}
FIRST = records(0, 60)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "local[2]"}, r"backend must be a SparkBackend, got 'local\[2\]'\. Write SparkBackend"),
        ({"store": "file:///data"}, r"store must be a Store, got 'file:///data'\. Write Store\.from_uri"),
        ({"id_column": 3}, "id_column must be a text, got 3"),
        ({"id_column": None}, "id_column must be .*, got None"),
        ({"feature_columns": "x"}, r"feature_columns must be a list of texts or a dict, got 'x'\. Write \['x'\]"),
        ({"feature_columns": []}, r"feature_columns must be .*, got \[\]"),
        ({"feature_columns": {}}, r"feature_columns must be a mapping with at least one input, got \{\}"),
        ({"feature_columns": {"pixels": "x"}}, r"pixels must be .*, got 'x': write \['x'\]"),
        ({"label_columns": "y"}, r"label_columns must be .*, got 'y'\. Write \['y'\]"),
        ({"label_columns": [1]}, r"label_columns must be .*, got \[1\]"),
        ({"label_columns": ["y", "y"]}, "label_columns and weight_column must be different columns"),
        ({"weight_column": 1}, "weight_column must be a text or None, got 1"),
        ({"weight_column": "id"}, "id_column must be a column apart from the labels and the weight, got 'id'"),
        ({"image_size": 0}, "image_size must be .*, got 0"),
        ({"replicas": 0}, "replicas must be an integer of at least 1, got 0"),
        ({"replicas": 3}, "replicas must be between 1 and the number of workers, 2, got 3"),
        ({"search": partial(Hyperband, max_epochs=3, replicas=2)}, r"set it in Adaptation\(replicas=...\)"),
        ({"test_fraction": 1.0}, "test_fraction must be .*, got 1.0"),
        ({"test_fraction": "a quarter"}, "test_fraction must be .*, got 'a quarter'"),
        ({"seed": -1}, "seed must be .*, got -1"),
        ({"seed": 1.5}, "seed must be .*, got 1.5"),
        ({"max_records": 10.5}, "max_records must be .*, got 10.5"),
        ({"disk_bytes": "25 GB"}, "disk_bytes must be .*, got '25 GB'"),
        ({"workspace_bytes": None}, "workspace_bytes must be .*, got None"),
        ({"fuse": "yes"}, "fuse must be True or False, got 'yes'"),
        ({"warm_start": 2}, "warm_start must be True or False, got 2"),
        ({"search": "hyperband"}, r"search must be .*, got 'hyperband'\. Write partial\(Hyperband, max_epochs=9\)"),
        ({"costs": 1e9}, r"costs must be .*Costs\(flops_per_second.*got 1000000000.0"),
        ({"errors": "rise"}, r"errors must be .*, got 'rise'; did you mean 'raise'"),
        ({"metric": 3}, "metric"),
        ({"callbacks": [print]}, "callbacks"),
        ({"rounds": "often"}, "rounds must be one of rolling, together, got 'often'"),
        (
            {"search": partial(Hyperband, max_epochs=3, metric="loss")},
            "search must leave metric to the campaign, got 'loss'",
        ),
        (
            {"search": partial(Hyperband, max_epochs=3, checkpoints="visits")},
            "search must leave checkpoints to the campaign, got 'visits'",
        ),
        ({"search": partial(Hyperband, max_epochs=0)}, "max_epochs"),
        ({"search_space": 3}, "search_space"),
    ],
)
def test_settings_of_wrong_types_and_ranges(
    spark: SparkSession, store: Store, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        replace(campaign(spark, store), **settings)


def test_settings_that_are_changed_later_are_checked_again(spark: SparkSession, store: Store) -> None:
    made = campaign(spark, store)
    search = Hyperband(
        backend=made.backend,
        store=store,
        trainer_fn=trainer,
        search_space={"lr": choice([0.1, 0.01])},
        max_epochs=3,
        feature_columns=["x"],
        label_columns=["y"],
    )
    for name, value, message in (
        ("search", search, r"got a Hyperband of cerebro_spark\. Write partial\(Hyperband, \.\.\.\)"),
        ("fuse", "yes", "fuse must be True or False, got 'yes'"),
        ("seed", 1.5, r"seed must be an integer, got 1\.5"),
        ("id_column", None, "id_column must be a text, got None"),
    ):
        changed = campaign(spark, store)
        setattr(changed, name, value)
        with pytest.raises(InvalidArgumentError, match=message):
            changed.fit(frame(spark, *FIRST))


def _wrong_label(params: dict[str, Any]) -> ModelTrainer:
    """Of two classes, where the labels have three."""
    made = trainer(params)
    made.model[-1] = torch.nn.Linear(made.model[-1].in_features, 2)
    made.optimizer.param_groups[0]["params"][-2:] = list(made.model[-1].parameters())
    return made


@pytest.mark.parametrize(
    ("rows", "settings", "error", "message"),
    [
        ([], {}, EmptyInputError, "no complete row|no row"),
        (
            FIRST[:1],
            {},
            EmptyInputError,
            "shard . gets none of the 1 complete rows .*lower num_shards",
        ),
        (FIRST, {"test_fraction": 1e-9}, EmptyInputError, "holds out none of the 60 .*set it to 0"),
        (FIRST[:56], {"test_fraction": 0.0}, InvalidArgumentError, "'loss' without validation rows.*got 'accuracy'"),
        (FIRST, {"metric": "acuracy"}, InvalidArgumentError, "did you mean 'accuracy'"),
        (
            [*FIRST, (77, [0.0] * WIDE, 7)],
            {},
            LabelError,
            r"label 'y' must be in 0\.\.2, the classes of the model, got 7 in record 77 \(IndexError",
        ),
        (
            [*FIRST, (78, [0.0] * WIDE, -1)],
            {},
            LabelError,
            r"label 'y' must be in 0\.\.2, .*, got -1 in record 78",
        ),
        (FIRST, {"trainer_fn": _wrong_label}, LabelError, r"'y' must be in 0\.\.1, .*, got 2 in record"),
        (FIRST, {"memory_bytes": 1 << 20}, InfeasiblePlanError, "memory_bytes"),
    ],
    ids=[
        "empty",
        "fewer rows than shards",
        "nothing held out",
        "no validation",
        "no such metric",
        "no such class",
        "a label below 0",
        "too few outputs",
        "too little memory",
    ],
)
def test_first_batches_that_are_refused(
    spark: SparkSession, store: Store, rows: Any, settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    """Nothing was computed, and there is no cycle."""
    made = campaign(spark, store, search_space=SPACE, **settings)
    with pytest.raises(error, match=message):
        made.fit(frame(spark, *rows))
    assert made.run_ids == ()
    assert made.cycles == ()
    assert FeatureStore(store, "campaign").used_bytes() == 0
    with pytest.raises(
        RunError, match=r"name must be that of an adaptation with a cycle .*got 'campaign'.*fit\(batch\)"
    ):
        made.resume()


@pytest.mark.slow
def test_a_disk_that_is_full_while_rates_are_measured(
    spark: SparkSession, small_disk: Callable[[str], Path], capfd: pytest.CaptureFixture[str]
) -> None:
    made = campaign(spark, small_disk("4m"), search_space=SPACE, costs=None)
    with pytest.raises(StoreFullError, match="the disk is full: free some space, or name a store on a larger one"):
        made.explain(frame(spark, *FIRST))
    printed = "".join(capfd.readouterr())
    assert "Traceback" not in printed
    assert "Exception in task" not in printed


@pytest.mark.extended
def test_a_campaign_that_was_refused_goes_on_with_what_is_mended(spark: SparkSession, store: Store) -> None:
    """A fit after one that failed, in a first and in a later cycle; and while another one goes on."""
    made = campaign(spark, store, search_space=SPACE)
    with pytest.raises(LabelError, match=r"got 3 in record 59"):
        made.fit(frame(spark, *FIRST[:-1], (59, FIRST[59][1], 3)))
    # No row has the last class, for which the models have an output: it may come later.
    first = made.fit(frame(spark, *(row for row in FIRST if row[2] < 2)))
    assert [trial.status for trial in first.trials] == ["finished"]
    with pytest.raises(LabelError, match=r"must be in 0\.\.2, .*, got 9 in record 100"):
        made.fit(frame(spark, (100, [0.0] * WIDE, 9)))
    with pytest.raises(EmptyInputError):
        made.fit(frame(spark))
    with (
        Lease(store, "campaign", folder="adaptations"),
        pytest.raises(RunError, match="'campaign' is being trained by"),
    ):
        campaign(spark, store, search_space=SPACE).fit(frame(spark, *FIRST))
    assert made.run_ids == ("campaign-0000",)
    assert made.resume().run_id == "campaign-0000"
    second = made.fit(frame(spark, *FIRST))
    assert second.line.records == len(FIRST)
    assert made.run_ids == ("campaign-0000", "campaign-0001")


class _Tied(torch.nn.Module):
    """One matrix embeds the records, below the trunk, and scores what the trunk's output became, above it."""

    def __init__(self, *, learns: bool) -> None:
        super().__init__()
        self.trunk = trunk_of()
        self.middle = torch.nn.Linear(NARROW, 128)
        self.head = torch.nn.Linear(128, WIDE, bias=False)
        self.tied = torch.nn.Linear(WIDE, 128, bias=False)
        self.tied.weight = torch.nn.Parameter(self.trunk[0].weight.detach().clone(), requires_grad=learns)
        self.last = torch.nn.Linear(128, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        below = torch.nn.functional.linear(x, self.tied.weight)
        hidden = torch.relu(self.middle(self.trunk[1:](below)))
        return self.last(self.tied(self.head(hidden)))


def _tied(params: dict[str, Any]) -> ModelTrainer:
    net = _Tied(learns=params["learns"])
    learns = [weight for weight in net.parameters() if weight.requires_grad]
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.SGD(learns, params["lr"]),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=BATCH,
        epochs=1,
    )


@pytest.mark.parametrize("learns", [True, False])
def test_weights_tied_across_the_cut(spark: SparkSession, store: Store, learns: bool) -> None:
    """Those that learn are no trunk, and the model trains whole, which is said; those that are frozen are cut."""
    made = campaign(spark, store, trainer_fn=_tied, search_space={"lr": [0.01], "learns": [learns]})
    text = made.explain(frame(spark, *FIRST[:30]))
    assert ("1 of 1 configurations train whole: nothing below what learns is frozen" in text) == learns, text
    assert ("materialised: nothing" in text) == learns, text


def _keras(params: dict[str, Any]) -> ModelTrainer:
    keras = pytest.importorskip("keras")
    net = keras.Sequential([keras.Input((WIDE,)), keras.layers.Dense(CLASSES)])
    net.trainable = params["learns"]
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return ModelTrainer(model=net, optimizer=keras.optimizers.SGD(0.1), loss=loss, metrics=["accuracy"], epochs=1)


@pytest.mark.slow
def test_keras_is_refused_alike(spark: SparkSession, store: Store) -> None:
    made = partial(campaign, spark, store, trainer_fn=_keras)
    with pytest.raises(LabelError, match=r"label 'y' must be in 0\.\.2, .*, got 7 in record 77"):
        made(search_space={"learns": [True]}).fit(frame(spark, *FIRST, (77, [0.0] * WIDE, 7)))
    with pytest.raises(TrainerError, match="must have a trainable layer with weights, and 'sequential"):
        made(search_space={"learns": [False]}).fit(frame(spark, *FIRST))
