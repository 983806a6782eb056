"""Names in the files of a store are compared and told; nothing is imported or opened by them."""

from __future__ import annotations

import inspect
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest

from cerebro_spark import Selection
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Journal, RunSpec
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup

if TYPE_CHECKING:
    from udfs.store import Store


class AdmittedError(Exception):
    """Raised where a run would begin."""


class Backend:
    """A backend that stops before Spark is asked for anything."""

    def admit(self) -> None:
        raise AdmittedError


def trainer(params: dict[str, Any]) -> None:
    raise AssertionError(params)


@pytest.fixture
def run(store: Store) -> str:
    group = TensorGroup("x", (TensorColumn("x", "float32"),))
    PreparedData(
        store, "data", (group,), (), (Shard("train", 0, "train/shard-00000.parquet", 1, 4),), 0, 0.0, "f0"
    ).save()
    spec = RunSpec("run", "data", [{"lr": 1}], "antigravity:fly", 1, 0, "fixed", 1, "loss", larger_is_better=False)
    Journal(store, "run").begin(spec)
    return "run"


def test_a_run_is_resumed_with_a_function_that_the_caller_gives() -> None:
    assert inspect.signature(Selection.resume).parameters["trainer_fn"].default is inspect.Parameter.empty


def test_the_function_that_a_run_names_is_not_imported(
    store: Store, run: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend = cast("Any", Backend())
    with caplog.at_level(logging.WARNING), pytest.raises(AdmittedError):
        Selection.resume(store, run, backend=backend, trainer_fn=trainer)
    assert "antigravity" not in sys.modules
    assert f"began with the trainer_fn antigravity:fly and goes on with {__name__}:trainer" in caplog.text
    with pytest.raises(InvalidArgumentError, match="trainer_fn='antigravity:fly': give the function"):
        Selection.resume(store, run, backend=backend, trainer_fn=cast("Any", "antigravity:fly"))
