"""What ``cerebro fsck`` says of a store, intact and damaged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from cerebro_spark.cli import app
from cerebro_spark.hopper import Event, Journal, RunSpec, Trial, inspect_store
from udfs.hopper import Checkpoints, Record
from udfs.rpc import digest_of
from udfs.shards import PreparedData, Shard, ShardWriter, TensorColumn, TensorGroup, shard_path

if TYPE_CHECKING:
    from pathlib import Path

    from udfs.store import Store

COLUMN = TensorColumn("x", "float32")


def fill(store: Store) -> None:
    """Write a shard, and a run of one configuration."""
    batch = pa.RecordBatch.from_pydict({"shard": pa.array([0] * 9, pa.int32()), "x": pa.array(range(9), pa.float32())})
    ((report,),) = (each.to_pylist() for each in ShardWriter(store, "data", (COLUMN,), (), 1)([batch]))
    shard = Shard("train", 0, shard_path("train", 0), 9, 36, report["digest"])
    PreparedData(store, "data", (TensorGroup("x", (COLUMN,)),), (), (shard,), 0, 0.0, "f0").save()
    spec = RunSpec(
        "run",
        "data",
        [{"lr": 1}],
        "module:f",
        1,
        0,
        "fixed",
        1,
        "loss",
        larger_is_better=False,
        rounds="rolling",
        procedure="GridSearch",
    )
    journal = Journal(store, "run")
    journal.begin(spec)
    Checkpoints(store, "run").write(Record("c000", 1, digest_of(b"state"), ((0, 0),)), b"state")
    event = Event(kind="train", trial_id="c000", worker="w0", epoch=0, partition=0, began=0.0, ended=1.0, seconds=0.9)
    journal.close([Trial("c000", {"lr": 1}, history=[{"loss": 1.0}])], [event])


def test_an_intact_store(store: Store) -> None:
    fill(store)
    findings = list(inspect_store(store))
    assert [finding.defect for finding in findings] == [""] * 7
    result = CliRunner().invoke(app, ["fsck", store.uri, "--verbose"])
    assert result.exit_code == 0
    assert "7 intact, 0 damaged" in result.output
    assert "train shard 0 of 'data'" in result.output


def test_every_damaged_file_is_named_with_a_remedy(store: Store, tmp_path: Path) -> None:
    fill(store)
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert len(files) == 7
    for path in files:
        intact = path.read_bytes()
        place = max(len(intact) // 2, 0)
        path.write_bytes(intact[:place] + bytes([intact[place] ^ 4]) + intact[place + 1 :])
        defects = [finding.defect for finding in inspect_store(store) if finding.defect]
        assert len(defects) == 1, path
        assert any(word in defects[0] for word in ("prepare", "put a copy", "resume")), defects
        result = CliRunner().invoke(app, ["fsck", store.uri])
        assert result.exit_code == 1
        assert "1 damaged" in result.output
        path.write_bytes(intact)


@pytest.mark.parametrize("place", ["absent", "empty", "of another thing", "a run's own folder"])
def test_a_place_without_data_is_no_intact_store(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "no store"
    if place != "absent":
        folder.mkdir()
    if place == "of another thing":
        (folder / "table.csv").write_text("x")
    if place == "a run's own folder":
        (folder / "checkpoints").mkdir()
    result = CliRunner().invoke(app, ["fsck", str(folder)], env={"COLUMNS": "300"})
    assert result.exit_code == 2
    assert "store must have prepared data or runs, got " in " ".join(result.output.split())
    assert "0 damaged" not in result.output
