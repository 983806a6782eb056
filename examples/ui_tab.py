"""Draw the plugin's tab in Spark's UI, after features of photographs and a search over them.

``python examples/ui_tab.py --out ui_tab.png`` needs the jar (``make jvm``) and Chromium (``apt-get install chromium``).
It takes two minutes.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from live_page import draw
from PIL import Image
from serving import photographs

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from vista_spark import CNNFeaturizer, session

if TYPE_CHECKING:
    from collections.abc import Sequence

COPIES = 60
"""Number of images that are made from each photograph."""


def large(photograph: bytes) -> bytes:
    """Scale a photograph to the size that a camera takes.

    Parameters
    ----------
    photograph : bytes
        Encoded image.

    Returns
    -------
    bytes
        JPEG of 12 megapixels.
    """
    buffer = io.BytesIO()
    Image.open(io.BytesIO(photograph)).convert("RGB").resize((4000, 3000)).save(buffer, "JPEG", quality=85)
    return buffer.getvalue()


def trainer(params: dict[str, Any]) -> ModelTrainer:
    """Build a network of one hidden layer, and Adam.

    Parameters
    ----------
    params : dict
        Hyperparameters ``hidden`` and ``lr``.

    Returns
    -------
    ModelTrainer
        Trainer of a classifier of two classes.
    """
    net = torch.nn.Sequential(
        torch.nn.Linear(512, params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute features, search, draw.

    Parameters
    ----------
    arguments : sequence of str, optional
        Command line, by default of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("ui_tab.png"), help="file of the picture")
    options = parser.parse_args(arguments)
    conf = {
        "spark.app.name": "photographs",
        "spark.executor.pyspark.memory": "12g",
        "spark.ui.showConsoleProgress": "false",
    }
    spark = session("local[2]", conf=conf)
    files = [large(content) for content in photographs().values()]
    rows = [(number, files[number % len(files)], number % 2) for number in range(COPIES * len(files))]
    with tempfile.TemporaryDirectory() as folder:
        spark.createDataFrame(rows, "id int, image binary, label int").repartition(8).write.parquet(f"{folder}/images")
        spark.sparkContext.setJobDescription("features of photographs")
        featurizer = CNNFeaturizer(
            inputCol="image", model="resnet18", seed=1, layers=["avgpool"], outputCols=["features"]
        )
        featurizer.transform(spark.read.parquet(f"{folder}/images")).drop("image").write.parquet(f"{folder}/features")
        GridSearch(
            backend=SparkBackend(spark, num_workers=2),
            store=Store.from_uri(f"file://{folder}/store"),
            trainer_fn=trainer,
            search_space={"lr": [1e-2, 1e-3], "hidden": [256, 1024, 4096]},
            num_epochs=4,
            feature_columns=["features"],
            label_columns=["label"],
            metric="accuracy",
        ).fit(spark.read.parquet(f"{folder}/features"))
        time.sleep(2)
        url = spark.sparkContext.uiWebUrl
        draw(f"{url}/cerebro/", None, options.out, height=880)
    spark.stop()


if __name__ == "__main__":
    main()
