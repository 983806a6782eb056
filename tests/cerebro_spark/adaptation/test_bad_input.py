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
from udfs.adaptation import FeatureStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SPACE = {"lr": [0.01], "layers": [2]}
FIRST = records(0, 60)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backend": "local[2]"}, r"backend='local\[2\]': a SparkBackend"),
        ({"store": "file:///data"}, r"store='file:///data': a Store, as Store.from_uri"),
        ({"id_column": 3}, "id_column=3: the name of one column"),
        ({"id_column": None}, "id_column=None"),
        ({"feature_columns": "x"}, r"feature_columns='x': a sequence of names; write \['x'\]"),
        ({"feature_columns": []}, r"feature_columns=\[\]"),
        ({"feature_columns": {}}, r"feature_columns=\{\}: at least one"),
        ({"feature_columns": {"pixels": "x"}}, r"pixels='x': .*write \['x'\]"),
        ({"label_columns": "y"}, r"label_columns='y': .*write \['y'\]"),
        ({"label_columns": [1]}, r"label_columns=\[1\]"),
        ({"label_columns": ["y", "y"]}, "name each column once"),
        ({"weight_column": 1}, "weight_column=1"),
        ({"weight_column": "id"}, "id_column='id' is a label or the weight"),
        ({"image_size": 0}, "image_size=0"),
        ({"replicas": 0}, "replicas=0: a whole number from 1 on"),
        ({"replicas": 3}, "replicas must be between 1 and the number of workers, 2, got 3"),
        ({"search": partial(Hyperband, max_epochs=3, replicas=2)}, r"give it to Adaptation\(replicas=...\)"),
        ({"test_fraction": 1.0}, "test_fraction=1.0"),
        ({"test_fraction": "a quarter"}, "test_fraction='a quarter'"),
        ({"seed": -1}, "seed=-1"),
        ({"seed": 1.5}, "seed=1.5"),
        ({"max_records": 10.5}, "max_records=10.5"),
        ({"disk_bytes": "25 GB"}, "disk_bytes='25 GB'"),
        ({"workspace_bytes": None}, "workspace_bytes=None"),
        ({"fuse": "yes"}, "fuse='yes': True or False"),
        ({"warm_start": 1}, "warm_start=1: True or False"),
        ({"costs": 1e9}, r"costs=1000000000.0: .*Costs\(flops_per_second"),
        ({"errors": "rise"}, "errors='rise'; did you mean 'raise'"),
        ({"metric": 3}, "metric"),
        ({"callbacks": [print]}, "callbacks"),
        ({"rounds": "often"}, "rounds must be one of rolling, together, got 'often'"),
        (
            {"search": partial(Hyperband, max_epochs=3, metric="loss")},
            r"metric='loss', which is the campaign's",
        ),
        (
            {"search": partial(Hyperband, max_epochs=3, checkpoints="visits")},
            r"checkpoints='visits', which is the campaign's",
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
        (
            FIRST,
            {"test_fraction": 0.0},
            InvalidArgumentError,
            "'loss' without validation rows.*got 'accuracy'",
        ),
        (FIRST, {"metric": "acuracy"}, InvalidArgumentError, "did you mean 'accuracy'"),
        (
            [*FIRST, (77, [0.0] * WIDE, 7)],
            {},
            LabelError,
            r"'y' of record 77 is 7, .* 3 classes, 0 to 2 \(IndexError",
        ),
        ([*FIRST, (78, [0.0] * WIDE, -1)], {}, LabelError, "label 'y' of record 78 is -1, .* 3 classes, 0 to 2"),
        (FIRST, {"trainer_fn": _wrong_label}, LabelError, "'y' of record .* is 2, and the model has 2 classes, 0 to 1"),
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
    with pytest.raises(RunError, match=r"no cycle of an adaptation 'campaign'.*fit\(batch\)"):
        made.resume()


@pytest.mark.extended
def test_a_campaign_that_was_refused_goes_on_with_what_is_mended(spark: SparkSession, store: Store) -> None:
    """A fit after one that failed, in a first and in a later cycle; and while another one goes on."""
    made = campaign(spark, store, search_space=SPACE)
    with pytest.raises(LabelError, match="record 59 is 3"):
        made.fit(frame(spark, *FIRST[:-1], (59, FIRST[59][1], 3)))
    # No row has the last class, for which the models have an output: it may come later.
    first = made.fit(frame(spark, *(row for row in FIRST if row[2] < 2)))
    assert [trial.status for trial in first.trials] == ["finished"]
    with pytest.raises(LabelError, match="record 100 is 9, and the model has 3 classes"):
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


@pytest.mark.extended
def test_keras_is_refused_alike(spark: SparkSession, store: Store) -> None:
    made = partial(campaign, spark, store, trainer_fn=_keras)
    with pytest.raises(LabelError, match="label 'y' of record 77 is 7, and the model has 3 classes"):
        made(search_space={"learns": [True]}).fit(frame(spark, *FIRST, (77, [0.0] * WIDE, 7)))
    with pytest.raises(TrainerError, match="nothing of 'sequential"):
        made(search_space={"learns": [False]}).fit(frame(spark, *FIRST))
