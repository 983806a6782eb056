"""Requests of the page for data debugging: documents in, plain JSON out."""

from __future__ import annotations

import base64
import io
import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from PIL import Image

pytest.importorskip("cleanlab", reason="pip install 'cerebro-spark[debugging]'")

from cerebro_spark import GridSearch, ModelTrainer, SparkBackend, Store
from cerebro_spark.debugging import _requests
from cerebro_spark.errors import InvalidArgumentError
from udfs.requests import RequestHandler, plain_json

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Context:
    """Pool with one search, whose progress is in ``reports``."""

    def __init__(self, spark: Any, searches: dict[str, Any]) -> None:
        self.spark, self.searches = spark, searches
        self.reports: list[Any] = []

    def report(self, progress: dict[str, Any]) -> None:
        self.reports.append(progress)


def png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((90, 90, 3), shade, np.uint8)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture(scope="module")
def context(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Context:
    """A pool with a search whose table has two classes, a wrong label in each twentieth row, and an image column."""
    folder: Path = tmp_path_factory.mktemp("requests")
    random = np.random.default_rng(0)
    rows = [
        (
            f"<r{number}>",
            float(4 * (number % 2) - 2 + 0.5 * random.normal()),
            (number + (number % 20 == 0)) % 2,
            png(number),
        )
        for number in range(80)
    ]
    spark.createDataFrame(rows, "key string, x double, label int, picture binary").coalesce(2).write.parquet(
        str(folder / "t.parquet")
    )

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Linear(1, 2)
        loss = torch.nn.CrossEntropyLoss()
        return ModelTrainer(model=net, optimizer=torch.optim.Adam(net.parameters(), lr=0.1), loss=loss, batch_size=8)

    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(folder)),
        trainer_fn=trainer,
        search_space={"lr": [0.1]},
        num_epochs=3,
        feature_columns=["x"],
        label_columns=["label"],
        test_fraction=0,
        keep="epochs",
        progress=False,
    )
    selection = search.fit(spark.read.parquet(str(folder / "t.parquet")))
    entry = SimpleNamespace(
        search=search,
        experiment=SimpleNamespace(wait=lambda _: selection),
        document={"table": str(folder / "t.parquet")},
    )
    drilled = SimpleNamespace(search=search, experiment=entry.experiment, document={"source": {"run": "adult"}})
    return Context(spark, {"adult": entry, "drill-down": drilled})


def ask(context: Context, handler: RequestHandler, **document: Any) -> dict[str, Any]:
    result = plain_json(handler.handle({"run": "adult", "id_column": "key", **document}, context))  # type: ignore[arg-type]
    json.dumps(result, allow_nan=False)
    return dict(result)


def test_label_errors_come_with_values_and_classes(context: Context) -> None:
    found = ask(context, _requests.LABEL_ERRORS, limit=4, folds=2)
    assert {row["id"] for row in found["rows"]} == {f"<r{number}>" for number in (0, 20, 40, 60)}
    first = found["rows"][0]
    assert (first["given_label"], first["suggested_label"], first["is_error"], first["rank"]) == (1, 0, True, 1)
    assert set(first["values"]) == {"x"}
    with Image.open(io.BytesIO(base64.b64decode(first["image"]))) as image:
        assert image.size == (64, 64)
    assert (found["classes"], found["label_column"], found["total"]) == ([0, 1], "label", 80)
    assert context.reports[-1] == {"text": "Training 2 networks, each without a part of the rows"}


def test_other_questions_have_rows_of_the_same_form(context: Context) -> None:
    strange = ask(context, _requests.OUTLIERS, run="drill-down", limit=3, columns=["x"])
    assert [row["rank"] for row in strange["rows"]] == [1, 2, 3] and strange["rows"][0]["given_label"] in {0, 1}
    led = ask(context, _requests.INFLUENCE, targets=["<r20>"], limit=6)
    assert {row["kind"] for row in led["rows"]} <= {"proponent", "opponent"} and led["rows"][0]["target_id"] == "<r20>"


@pytest.mark.parametrize(
    ("handler", "document", "message"),
    [
        (
            "LABEL_ERRORS",
            {"run": "adul"},
            "must be a search of this pool since its start, got 'adul'; did you mean",
        ),
        ("LABEL_ERRORS", {"id_column": "idd"}, "has no column 'idd'"),
        ("LABEL_ERRORS", {"trial": "c9"}, "trial must be a configuration of 'adult', got 'c9'"),
        ("LABEL_ERRORS", {"limit": 0}, "limit must be"),
        ("SLICES", {"columns": "x"}, "columns must be a list of columns, got 'x'"),
        ("INFLUENCE", {}, "targets must be a list of 1 to 1000 ids, got None"),
        (
            "OUTLIERS",
            {"table": "/no/such.parquet"},
            "table must be a table that Spark can read, got '/no/such.parquet'",
        ),
        ("LEAKS", {}, "held_out_table must be a text, got None"),
    ],
)
def test_bad_documents_are_refused(context: Context, handler: str, document: dict[str, Any], message: str) -> None:
    from cerebro_spark.errors import CerebroError

    with pytest.raises(CerebroError, match=message):
        ask(context, getattr(_requests, handler), **{"held_out": True} | document)


def test_a_search_that_trains_is_refused() -> None:
    def wait(_: float) -> None:
        raise TimeoutError

    busy = Context(None, {"adult": SimpleNamespace(experiment=SimpleNamespace(wait=wait), document={})})
    with pytest.raises(InvalidArgumentError, match="other must be a search that has ended, got 'adult', which trains"):
        ask(busy, _requests.COMPARISON, other="adult", held_out_table="t.parquet")
