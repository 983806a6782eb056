"""Values of a wrong type are refused by the annotations of a function, in one sentence with the remedy."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from optimizer.errors import InvalidArgumentError
from udfs.driver import UnknownKeywordError, validate_arguments
from udfs.store import Store

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.ml import Estimator
    from pyspark.sql import DataFrame, SparkSession


class Forest:
    """Stands in for what a user passes as a class."""


@validate_arguments
@dataclass(kw_only=True)
class Job:
    """Settings of every kind that public functions have."""

    size: int | None = None
    share: float = 0.5
    name: str = ""
    verbose: bool = True
    columns: Sequence[str] = ()
    inputs: Sequence[str] | Mapping[str, Sequence[str]] = ()
    store: Store | None = None
    estimator: Estimator[Any] | None = None
    function: Callable[[dict[str, Any]], int] | None = None
    weights: str | os.PathLike[str] | None = None
    anything: Any = None

    @validate_arguments
    def run(self, df: DataFrame, *, run_id: str | None = None) -> str:
        return f"{run_id}"

    @validate_arguments
    def start(self, spark: SparkSession | None = None, *, run_id: str | None = None) -> str:
        return f"{run_id}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": "96"}, r"size must be an integer or None, got '96'\. Write 96 without quotes\."),
        ({"size": 96.5}, "size must be an integer or None, got 96.5"),
        ({"size": True}, "size must be an integer or None, got True"),
        ({"share": "a half"}, r"share must be a number, got 'a half'\.$"),
        ({"share": None}, "share must be a number, got None"),
        ({"name": 3}, "name must be a text, got 3"),
        ({"name": b"x"}, "name must be a text, got b'x'"),
        ({"verbose": np.array([True, False])}, "verbose must be True or False, got a ndarray of numpy"),
        ({"verbose": "False"}, "verbose must be True or False, got 'False'. Write False without quotes"),
        ({"columns": "age"}, r"columns must be a list of texts, got 'age'\. Write \['age'\]"),
        ({"columns": [1, 2]}, r"columns must be a list of texts, got \[1, 2\]"),
        ({"inputs": "age"}, r"inputs must be a list of texts or a dict, got 'age'\. Write \['age'\]"),
        (
            {"store": "/tmp/store"},
            r"store must be a Store or None, got '/tmp/store'\. Write Store.from_uri\('/tmp/store'\)",
        ),
        ({"store": pathlib.Path("/tmp/s")}, r"store must be a Store or None.*Write Store.from_uri\('/tmp/s'\)"),
        ({"store": Store}, "store must be a Store or None, got the class Store"),
        (
            {"estimator": Forest},
            r"estimator must be a Spark ML estimator or None, got the class Forest. Make an instance: Forest\(\)",
        ),
        ({"estimator": Forest()}, "estimator must be a Spark ML estimator or None, got a Forest of"),
        ({"function": "trainer"}, "function must be a function or None, got 'trainer'"),
        ({"weights": 3}, "weights must be a text or a path or None, got 3"),
    ],
)
def test_a_wrong_type_is_refused_by_name(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Job(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"size": np.int64(3)},
        {"size": None, "share": 1},
        {"share": np.float32(0.5)},
        {"verbose": np.bool_(True)},
        {"columns": ("a",)},
        {"columns": np.array(["a"])},
        {"columns": pd.Index(["a"])},
        {"columns": (name for name in "ab")},
        {"inputs": {"left": ["a"]}},
        {"weights": pathlib.Path("x")},
        {"function": Forest},
        {"anything": object()},
    ],
)
def test_values_that_serve_pass(values: dict[str, Any]) -> None:
    Job(**values)


@pytest.mark.parametrize("frame", [pd.DataFrame({"a": [1]}), pa.table({"a": [1]})])
def test_a_frame_of_another_library_has_a_remedy(frame: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"df must be a Spark DataFrame.*spark.createDataFrame\(frame\)"):
        Job().run(frame)


def test_tables_of_spark_pass(spark: SparkSession) -> None:
    assert Job().run(spark.range(1), run_id="monday") == "monday"
    assert Job().start(spark) == "None"


def test_a_keyword_of_a_method_says_where_it_belongs(spark: SparkSession) -> None:
    with pytest.raises(
        UnknownKeywordError, match=r"Job\(\) has no parameter 'run_id': it is a parameter of run\(\) and start"
    ):
        Job(run_id="monday")  # type: ignore[call-arg]
    with pytest.raises(UnknownKeywordError, match=r"run\(\) has no parameter 'size': it is a parameter of Job\(\)"):
        Job().run(spark.range(1), size=3)  # type: ignore[call-arg]
    with pytest.raises(UnknownKeywordError, match="'run_ids'; did you mean 'run_id'"):
        Job().run(spark.range(1), run_ids="monday")  # type: ignore[call-arg]


def test_a_stopped_session_is_named() -> None:
    class SparkSession:
        """Stands in for a classic session after its stop."""

        def range(self, _: int) -> object:
            raise AttributeError("'NoneType' object has no attribute 'sc'")

    SparkSession.__module__ = "pyspark.sql.session"
    with pytest.raises(InvalidArgumentError, match=r"spark must belong to a running Spark session.*start a new one"):
        Job().start(SparkSession())  # type: ignore[arg-type]
