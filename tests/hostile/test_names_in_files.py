"""Names in the files of a store are compared and told; nothing is imported or opened by them."""

from __future__ import annotations

import inspect
import logging
import sys
from typing import TYPE_CHECKING, Any, cast

import pytest
from typer.testing import CliRunner

from cerebro_spark import Selection, SparkBackend, prepare
from cerebro_spark.cli import app
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Journal, RunSpec
from udfs.driver import StageReader
from udfs.shards import PreparedData, Shard, TensorColumn, TensorGroup
from vista_spark import CNNFeaturizer

if TYPE_CHECKING:
    from pathlib import Path

    from udfs.store import Store


class AdmittedError(Exception):
    """Raised where a run would begin."""


class Backend(SparkBackend):
    """A backend that stops before Spark is asked for anything."""

    def __init__(self) -> None:
        """Check nothing: there is no session."""

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
    spec = RunSpec(
        "run",
        "data",
        [{"lr": 1}],
        "antigravity:fly",
        1,
        0,
        "fixed",
        1,
        "loss",
        larger_is_better=False,
        rounds="rolling",
        procedure="GridSearch",
    )
    Journal(store, "run").begin(spec)
    return "run"


@pytest.mark.parametrize("place", ["paramMap", "defaultParamMap"])
def test_a_saved_stage_imports_nothing(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    metadata = {"class": "x.CNNFeaturizer", "uid": "u", "paramMap": {}, "defaultParamMap": {}}
    metadata[place] = {"model": "antigravity:fly"}
    monkeypatch.setattr(StageReader, "loadMetadata", staticmethod(lambda *_: metadata))
    monkeypatch.setattr(StageReader, "sparkSession", property(lambda _: None))
    with pytest.raises(InvalidArgumentError, match="names the code 'antigravity:fly' as its model"):
        CNNFeaturizer.load("somewhere")
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("name", ["../run", "/etc", "", ".hidden", "a/b", "r" * 129, "run\x00", "läuft"])
def test_names_are_checked_at_every_door(store: Store, name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="the name of a run has letters"):
        Journal(store, name)
    with pytest.raises(InvalidArgumentError, match="the name of a run has letters"):
        Selection.resume(store, name, backend=Backend(), trainer_fn=trainer)
    with pytest.raises(InvalidArgumentError, match="the name of prepared data has letters"):
        PreparedData.load(store, name)
    table = type("DataFrame", (), {"__module__": "pyspark.sql", "sparkSession": None})()
    with pytest.raises(InvalidArgumentError, match="the name of prepared data has letters"):
        prepare(cast("Any", table), store, feature_columns=["x"], label_columns=["y"], num_shards=1, name=name)
    if "\x00" not in name:  # no argument of a command
        result = CliRunner().invoke(app, ["tune", "search.py", "--out", str(tmp_path), f"--run-id={name}"])
        assert result.exit_code == 2
        assert "the name of a run has letters" in " ".join(result.output.split())


def test_a_run_is_resumed_with_a_function_that_the_caller_gives() -> None:
    assert inspect.signature(Selection.resume).parameters["trainer_fn"].default is inspect.Parameter.empty


def test_the_function_that_a_run_names_is_not_imported(
    store: Store, run: str, caplog: pytest.LogCaptureFixture
) -> None:
    backend = Backend()
    with caplog.at_level(logging.WARNING), pytest.raises(AdmittedError):
        Selection.resume(store, run, backend=backend, trainer_fn=trainer)
    assert "antigravity" not in sys.modules
    expected = f"began with the trainer_fn antigravity:fly and goes on with {__name__}:trainer"
    assert expected in "\n".join(caplog.messages)
    with pytest.raises(InvalidArgumentError, match="trainer_fn must be a function, got 'antigravity:fly'"):
        Selection.resume(store, run, backend=backend, trainer_fn=cast("Any", "antigravity:fly"))
