"""A campaign of Keras's models: they are opened, train together, and hop with what learns alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

keras = pytest.importorskip("keras")
pytest.importorskip("tensorflow")

from campaigns import SLOW_WORKER
from pyspark import cloudpickle

from cerebro_spark import Adaptation, ModelTrainer, SparkBackend
from udfs.hopper import Checkpoints
from udfs.packing import unpack

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark.adaptation import Cycle
    from udfs.store import Store

cloudpickle.register_pickle_by_value(sys.modules[__name__])

SIDE, CLASSES, BATCH, EPOCHS, SEED = 8, 3, 16, 2, 5
CONVOLUTIONS = 3


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """A CNN over a trunk that is the same in every process; its last convolutions and a head learn."""
    layers = keras.layers
    x = image = keras.Input((SIDE * SIDE,))
    x = layers.Reshape((SIDE, SIDE, 1))(x)
    for place in range(CONVOLUTIONS):
        learns = place >= CONVOLUTIONS - params["top"]
        drawn = keras.initializers.GlorotUniform(seed=place)
        x = layers.Conv2D(8, 3, padding="same", kernel_initializer=drawn, trainable=learns)(x)
        x = layers.ReLU()(layers.BatchNormalization(trainable=learns)(x))
        x = layers.Dropout(0.3, trainable=learns)(x)
    x = layers.Dense(768, activation="relu")(layers.Flatten()(layers.MaxPooling2D()(x)))
    x = layers.Dropout(0.3)(layers.BatchNormalization()(x))
    model = keras.Model(image, layers.Dense(CLASSES)(x))
    return ModelTrainer(
        model=model,
        optimizer=keras.optimizers.Adam(params["lr"]),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        batch_size=BATCH,
        epochs=EPOCHS,
    )


def images(spark: SparkSession, rows: int) -> DataFrame:
    """Random images, of the class of the brightest of their thirds."""
    drawn = np.random.default_rng(0).random((rows, SIDE * SIDE))
    classes = drawn[:, : SIDE * SIDE // CLASSES * CLASSES].reshape(rows, CLASSES, -1).mean(-1).argmax(-1)
    labelled = zip(range(rows), drawn.tolist(), classes.tolist(), strict=True)
    return spark.createDataFrame(list(labelled), "id long, x array<double>, y int")


def fitted(spark: SparkSession, store: Store, name: str, *, fuse: bool) -> Cycle:
    campaign = Adaptation(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=store,
        trainer_fn=trainer,
        search_space={"lr": [0.01, 0.001], "top": [0, 1]},
        id_column="id",
        feature_columns=["x"],
        label_columns=["y"],
        metric="accuracy",
        name=name,
        max_records=200,
        costs=SLOW_WORKER,
        progress=False,
        seed=SEED,
        schedule="fixed",
        fuse=fuse,
    )
    return campaign.fit(images(spark, 90))


def checkpoints(cycle: Cycle) -> dict[str, dict[str, Any]]:
    """What the store has of each trial after its last unit."""
    kept = Checkpoints(cycle.prepared.store, cycle.run_id)
    states = {}
    for trial in cycle.trials:
        record = kept.last(trial.trial_id)
        assert record is not None
        state = kept.read(trial.trial_id, record.version, record.digest)
        states[trial.trial_id] = unpack(state, lambda array, _kind: array)
    return states


@pytest.mark.extended
def test_candidates_train_together_as_they_do_alone(spark: SparkSession, store: Store) -> None:
    together, alone = fitted(spark, store, "together", fuse=True), fitted(spark, store, "alone", fuse=False)
    assert together.notes == ()
    assert any(event.members > 1 for event in together.outcome.events)
    assert not any(event.members > 1 for event in alone.outcome.events)
    assert together.materialised.trunk_rows == 90
    found, expected = checkpoints(together), checkpoints(alone)
    assert found.keys() == expected.keys()
    assert len(found) == 4
    for trial, other in zip(together.trials, alone.trials, strict=True):
        assert trial.status == "finished", trial.traceback
        assert (trial.trial_id, trial.visits, trial.history) == (other.trial_id, other.visits, other.history)
        one, two = found[trial.trial_id], expected[trial.trial_id]
        for part in ("model", "optimizer"):
            for value, same in zip(one[part], two[part], strict=True):
                np.testing.assert_array_equal(value, same)
    for trial in together._trials:
        model = trainer(trial.params).model
        exact = 3 * sum(variable.numpy().nbytes for variable in model.trainable_variables)
        assert exact <= trial.state_bytes <= 1.02 * exact + 2 * 4 * 768, "weights, two slots, the norm's statistics hop"
