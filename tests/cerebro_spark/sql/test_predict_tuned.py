"""``predict_tuned`` gives the rows of the tuned model's ``transform``, in SQL."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from photographs import crops, encode
from pyspark.ml.linalg import Vectors
from stages import tuned_model

from cerebro_spark import TunedModel, register_sql
from cerebro_spark.errors import InvalidArgumentError
from udfs.inference import PortableNetwork
from udfs.shards import TensorColumn, TensorGroup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def model(network: torch.nn.Module, inputs: list[TensorGroup], *, kind: str, threshold: float = 0.0) -> TunedModel:
    rows = [
        np.zeros((2, *group.columns[0].shape) if not group.joined else (2, _width(group)), np.float32)
        for group in inputs
    ]
    made = PortableNetwork.of(network, rows)
    facts = {
        "framework": "torch",
        "kind": kind,
        "threshold": threshold,
        "probabilities": False,
        "inputs": [asdict(group) for group in inputs],
        "label": "label",
    }
    return TunedModel(made.data, facts)


def _width(group: TensorGroup) -> int:
    return sum(column.size for column in group.columns)


def seeded(*layers: Any) -> torch.nn.Sequential:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return torch.nn.Sequential(*(layer() for layer in layers))


def joined(*columns: TensorColumn) -> TensorGroup:
    return TensorGroup("features", columns, joined=True)


NUMBERS = joined(
    TensorColumn("price", "float32", ()), TensorColumn("sold", "float32", ()), TensorColumn("v", "float32", (2,))
)


@pytest.mark.connect
def test_a_query_gives_the_rows_of_the_model(spark: SparkSession) -> None:
    rows = [
        (1, "1.50", True, Vectors.dense([0.5, -1.0])),
        (2, "-3.25", False, Vectors.sparse(2, {1: 4.0})),
        (3, None, True, Vectors.dense([0.5, -1.0])),
        (4, "2.00", True, Vectors.dense([0.5, -1.0, 3.0])),
        (5, "2.00", None, None),
    ]
    df = spark.createDataFrame(rows, ["id", "text", "sold", "v"])
    df = df.selectExpr("id", "cast(text AS decimal(10, 2)) AS price", "sold", "v").repartition(2)
    df.createOrReplaceTempView("goods")
    kinds = {
        "classes": model(seeded(lambda: torch.nn.Linear(4, 3)), [NUMBERS], kind="classes"),
        "positive": model(seeded(lambda: torch.nn.Linear(4, 1)), [NUMBERS], kind="positive"),
        "value": model(seeded(lambda: torch.nn.Linear(4, 1)), [NUMBERS], kind="value"),
    }
    assert register_sql(spark, **kinds) == ("predict_tuned", "predict_tuned_or_error")
    for name, stage in kinds.items():
        expected = stage.transform(df).sort("id").collect()
        found = spark.sql(
            f"""
            SELECT predict_tuned(struct(*), '{name}') AS plain,
                   predict_tuned_or_error(struct(v, sold, price), '{name}') AS told FROM goods ORDER BY id
            """
        ).collect()
        assert [row["plain"] for row in found] == [row["prediction"] for row in expected], name
        assert [row["told"]["prediction"] for row in found] == [row["plain"] for row in found]
        assert [row["plain"] is None for row in found] == [False, False, True, True, True]
        for row, right in zip(found[:2], expected, strict=False):
            assert np.allclose(row["told"]["raw_prediction"], right["rawPrediction"].toArray(), atol=1e-6), name
            if name == "value":
                assert row["told"]["probability"] is None
            else:
                assert np.allclose(row["told"]["probability"], right["probability"].toArray(), atol=1e-6), name
        told = [(row["told"]["error"], row["told"]["detail"]) for row in found]
        assert told[:4] == [(None, None)] * 2 + [("null", "column 'price'"), ("tensor of another size", "column 'v'")]


def test_images_and_tensors_beside_each_other(spark: SparkSession) -> None:
    class Both(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Linear(3 * 8 * 8 + 6, 2)

        def forward(self, image: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
            return self.head(torch.cat([image.flatten(1), tensor.flatten(1)], 1))

    image = TensorGroup("image", (TensorColumn("image", "uint8", (3, 8, 8)),), joined=False)
    tensor = TensorGroup("t", (TensorColumn("t", "float32", (2, 3)),), joined=False)
    both = model(seeded(Both)[0], [image, tensor], kind="classes")
    nested = [[[1.0, 2.0, 3.0], [4.0, 5.0, float(number)]] for number in range(4)]
    rows = [(number, encode(picture), nested[number]) for number, (*_, picture) in enumerate(crops(3, side=32))]
    rows += [(3, b"no image", nested[3]), (4, rows[0][1], [[1.0], [2.0]])]
    df = spark.createDataFrame(rows, "id long, image binary, t array<array<double>>")
    df.createOrReplaceTempView("both")
    register_sql(spark, both=both)
    expected = both.transform(df).sort("id").collect()
    found = spark.sql("SELECT predict_tuned_or_error(struct(image, t)) p FROM both ORDER BY id").collect()
    assert [row["p"]["prediction"] for row in found] == [row["prediction"] for row in expected]
    assert [row["p"]["error"] is None for row in found] == [True, True, True, False, False]
    assert found[3]["p"]["error"].startswith("image in 'image'")


def test_one_column_needs_no_struct(spark: SparkSession) -> None:
    stage = tuned_model()
    rows = [(number, Vectors.dense([number, 1.0, -1.0, 0.5])) for number in range(5)]
    df = spark.createDataFrame(rows, ["id", "numbers"])
    df.createOrReplaceTempView("numbers")
    register_sql(spark, tuned=stage)
    expected = [row["guess"] for row in stage.transform(df).sort("id").collect()]
    for argument in ("numbers", "struct(id, numbers)"):
        found = spark.sql(f"SELECT predict_tuned({argument}) p FROM numbers ORDER BY id").collect()
        assert [row["p"] for row in found] == expected, argument


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("predict_tuned(struct(price, sold), 'goods')", "must have column 'v', got price, sold"),
        (
            "predict_tuned(struct('1' AS price, sold, v))",
            "column 'price' of .* must be float32, .*got string",
        ),
        ("predict_tuned(struct(*), 'good')", "a registered model .*got 'good'; did you mean 'goods'"),
        ("predict_tuned(price)", r"must have column 'price', got decimal"),
    ],
)
def test_a_wrong_call_says_what_there_is(spark: SparkSession, call: str, message: str) -> None:
    rows = [(1.5, True, [0.5, -1.0])]
    df = spark.createDataFrame(rows, "price double, sold boolean, v array<double>")
    df.selectExpr("cast(price AS decimal(4, 1)) AS price", "sold", "v").createOrReplaceTempView("one")
    register_sql(spark, goods=model(seeded(lambda: torch.nn.Linear(4, 1)), [NUMBERS], kind="value"))
    with pytest.raises(Exception, match=message):
        spark.sql(f"SELECT {call} FROM one").collect()


def test_what_is_no_function_is_refused(spark: SparkSession) -> None:
    tagger = TunedModel(b"", {"kind": "tags", "label": "tags", "inputs": [], "threshold": 0.0})
    with pytest.raises(InvalidArgumentError, match="'tags' is a class for each token"):
        register_sql(spark, tagger=tagger)
    with pytest.raises(InvalidArgumentError, match="has no model"):
        register_sql(spark)
    with pytest.raises(InvalidArgumentError, match="other='x': register_sql takes TunedModel"):
        register_sql(spark, other="x")  # type: ignore[arg-type]
