"""The ``vista`` command: from files to a table, a picture, a model and an MLflow run."""

from __future__ import annotations

import csv
import errno
import json
import os
import subprocess
import sys
import warnings
from importlib import import_module
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from photographs import crops, encode
from pyspark.ml import PipelineModel
from sessions import CONNECT
from typer.testing import CliRunner

from optimizer import __version__
from udfs.cli import run_command
from vista_spark import roster
from vista_spark.cli import app
from vista_spark.files import read_images, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")

COUNT = 24


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images, nested, one of them corrupt, and a table with one id too many."""
    folder = tmp_path_factory.mktemp("data")
    rows = []
    for number, (label, left, top, picture) in enumerate(crops(COUNT)):
        place = folder / "images" / ("even" if number % 2 else "odd")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number:03d}.jpg").write_bytes(encode(picture) if number != 5 else b"junk")
        rows.append({"key": number, "kind": "flower" if label else "china", "left": left, "top": top, "note": "a, b"})
    rows.append({**rows[0], "key": 999})
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def _vista(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return subprocess.run(
        [sys.executable, "-m", "vista_spark", *arguments],
        env={**environment, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.extended
def test_transfer_from_files(data: Path, tmp_path: Path, spark: SparkSession) -> None:
    out = tmp_path / "out"
    done = _vista(
        *("transfer", "--images", str(data / "images"), "--table", str(data / "table.csv"), "--on", "key"),
        *("--label", "kind", "--model", "squeezenet1_1", "--layers", "fire9,1", "--out", str(out)),
        "--random-weights",
        *("--master", "local[2]", "--test-fraction", "0.4"),
    )
    assert done.returncode == 0, done.stderr
    assert (out / "plan.txt").read_text() in done.stdout, "the plan that is printed is not the one that ran"
    chosen = "structured features: left, top (every numeric column but key and kind; --features names others)"
    assert chosen in done.stdout
    assert "structured row without an image (1 rows)" in done.stdout
    assert "The weights of squeezenet1_1 are random" in done.stdout, "the verdict"
    assert "image: not a JPEG, PNG, WEBP, GIF, BMP or TIFF image (1 rows)" in done.stdout
    layers = pd.read_csv(out / "layers.csv")
    assert list(layers["features"]) == ["structured only", "structured + fire9", "structured + pool10"]
    assert list(layers["size"]) == [0, 2048, 1000]
    assert (layers["inference_seconds"][1:] > 0).all(), "layers of one pass share its seconds"
    assert (out / "layers.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "mlflow.db").is_file()
    assert list((out / "mlruns").rglob("layers.png"))

    table = read_table(spark, str(data / "table.csv"))
    images = read_images(spark, str(data / "images"), "key", "image", table)
    predicted = PipelineModel.load(str(out / "best_model")).transform(table.join(images, "key"))
    kept = predicted.select("key", "kind", "predicted_kind", "transfer_error").collect()
    rows = [row for row in kept if row.predicted_kind is not None]
    (bad,) = (row for row in kept if row.predicted_kind is None)
    assert (bad.key, bad.transfer_error) == (5, "image: not a JPEG, PNG, WEBP, GIF, BMP or TIFF image")
    assert len(rows) == COUNT - 1
    # A china crop and a flower crop differ at a glance, and most of these were trained on.
    assert sum(row.kind == row.predicted_kind for row in rows) > 0.8 * len(rows)


@pytest.fixture
def inputs(tmp_path: Path) -> dict[str, str]:
    """Options of a transfer with which nothing is wrong."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "1.jpg").write_bytes(encode(next(iter(crops(1)))[3]))
    (tmp_path / "table.csv").write_text("id,price,kind\n1,2.5,a\n2,3.5,b\n")
    (tmp_path / "empty.csv").write_text("id,price,kind\n")
    torch.save({"fc.weight": torch.zeros(2, 2)}, tmp_path / "other.pt")
    pq.write_table(pa.table({"id": [1], "picture": [b"x"]}), tmp_path / "images.parquet")
    return {
        "--images": str(tmp_path / "images"),
        "--table": str(tmp_path / "table.csv"),
        "--label": "kind",
        "--model": "squeezenet1_1",
        "--out": str(tmp_path / "out"),
    }


def _words(options: dict[str, str]) -> list[str]:
    """Spell options; the network is a random one unless they name weights."""
    given = [word for pair in options.items() for word in pair]
    return given if "--weights" in options else [*given, "--random-weights"]


def _refused(command: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return the output of a command that ends with exit code 2 and has started and written nothing."""

    def session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("vista_spark.sessions.session", session)
    words = [word for pair in options.items() for word in pair] if command == "plan" else _words(options)
    result = CliRunner().invoke(app, [command, *arguments, *words], env={"COLUMNS": "400"})
    assert result.exit_code == 2, result.output + repr(result.exception)
    return " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("option", "value", "reasons"),
    [
        ("--model", "resnet19", ["no model 'resnet19'", "did you mean 'resnet1"]),
        ("--layers", "fire99", ["no layer 'fire99'", "did you mean 'fire9'"]),
        ("--layers", "99", ["no layer '99'", "from the top"]),
        ("--downstream", "logstic", ["did you mean 'logistic'"]),
        ("--downstream", "no.such.module:Thing", ["no.such.module"]),
        ("--images", "{folder}/nowhere", ["--images", "no such file or folder"]),
        ("--images", "{folder}/images.parquet", ["--images has no column 'image'", "id, picture"]),
        ("--table", "{folder}/absent.parquet", ["absent.parquet", "no such file or folder"]),
        ("--table", "{folder}/table.xlsx", ["separated values", "--table-format"]),
        ("--table", "{folder}/empty.csv", ["--table", "has no row"]),
        ("--features", "price,kind", ["'kind' is text", "--categories kind"]),
        ("--categories", "colour", ["--table has no column 'colour'"]),
        ("--downstream", "vista_spark.cli:nothing", ["nothing"]),
        ("--model", "{folder}/nowhere/", ["nowhere"]),
        ("--weights", "{folder}/other.pt", ["do not fit squeezenet1_1", "missing"]),
        ("--out", "/proc/nowhere/out", ["--out", "name another folder"]),
        ("--label", "knd", ["--table has no column 'knd'; did you mean 'kind'?"]),
        ("--on", "key", ["--table has no column 'key'"]),
        ("--features", "price,weight", ["--table has no column 'weight'"]),
        ("--weights", "{folder}/absent.pt", ["absent.pt"]),
        ("--pooling", "max", ["'max'; did you mean 'max2x2'?"]),
        ("--pooling", "cls", ["squeezenet1_1 reads image"]),
        ("--image-aggregation", "sum", ["'sum'", "mean, max"]),
        ("--plan", "stagged", ["did you mean 'staged'"]),
        ("--errors", "drp", ["did you mean 'drop'"]),
        ("--test-fraction", "1", ["test_fraction must be between 0 and 1", "got 1.0"]),
        ("--batch-size", "0", ["Invalid value for '--batch-size'"]),
        ("--device", "gpu0", ["'gpu0'", "cuda"]),
        ("--master", "lcoal[2]", ["'lcoal[2]'", "local[*]"]),
        ("--out", "s4://bucket/out", ["'s4://bucket/out' cannot be written", "name another URI"]),
        ("--out", "file:///proc/nowhere/out", ["name another folder"]),
        ("--out", "{folder}/table.csv", ["is a file"]),
    ],
)
def test_transfer_refuses_a_wrong_argument_before_spark_starts(
    option: str,
    value: str,
    reasons: list[str],
    inputs: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    output = _refused("transfer", inputs | {option: value.format(folder=tmp_path)}, monkeypatch)
    for reason in reasons:
        assert reason in output
    assert sorted(tmp_path.rglob("*")) == before


class _Started(Exception):  # noqa: N818
    """Spark would have been started."""


@pytest.mark.parametrize(
    "options",
    [
        {"--table": "s3://bucket/t.parquet"},
        {"--images": "photos/*/"},
        {"--master": "yarn", "--table": "/of/hdfs.csv", "--images": "/of/hdfs"},
    ],
)
def test_what_this_machine_cannot_see_is_left_to_spark(
    options: dict[str, str], inputs: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def session(*_: object, **__: object) -> None:
        raise _Started

    monkeypatch.setattr("vista_spark.sessions.session", session)
    assert isinstance(CliRunner().invoke(app, ["transfer", *_words(inputs | options)]).exception, _Started)


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--label", "knd", "did you mean 'kind'"),
        ("--table", "{folder}/empty.csv", "has no row"),
        ("--table-format", "delta", "only Spark reads 'delta'"),
        ("--table", "{folder}/absent.csv", "no such file or folder"),
        ("--layers", "fire99", "did you mean 'fire9'"),
        ("--pooling", "cls", "squeezenet1_1 reads image"),
        ("--downstream", "logstic", "did you mean 'logistic'"),
        ("--weights", "{folder}/absent.pt", "absent.pt"),
        ("--memory", "32q", "'32q'"),
        ("--cores", "0", "Invalid value for '--cores'"),
        ("--rows", "0", "Invalid value for '--rows'"),
        ("--picture", "{folder}/memory.txt", "a picture ends with"),
        ("--defaults", "hdfs://host/conf", "is a URI"),
    ],
)
def test_plan_refuses_a_wrong_argument_before_it_measures(
    option: str, value: str, reason: str, inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del inputs["--out"]
    monkeypatch.setattr("vista_spark.cli._plan.plan_feature_transfer", lambda *_, **__: pytest.fail("it measures"))
    assert reason in _refused("plan", inputs | {option: value.format(folder=tmp_path)}, monkeypatch)


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("--tau", "0.5", "tau must be left out of mode"),
        ("--weights", "{folder}/absent.pt", "absent.pt"),
        ("--mode", "exat", "did you mean 'exact'"),
        ("--perturbation", "grey", "color, mean, blur"),
        ("--stride", "32", "stride must be at most the patch of 16"),
        ("--patch-size", "999", "999"),
        ("--precision", "float16", "did you mean 'bfloat16'"),
        ("--out", "heat.txt", "a picture ends with"),
        ("--out", "s3://bucket/heat.png", "is a URI"),
        ("--out", "{folder}/image.jpg/heat.png", "name a file that can be written"),
        ("--output", "logits", "did you mean 'logit'"),
        ("--head", "boxes", "head must be left out"),
        ("--device", "gpu0", "one of auto, cpu, cuda"),
    ],
)
def test_explain_refuses_a_wrong_argument_before_spark_starts(
    option: str, value: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"--model": "squeezenet1_1", "--out": str(tmp_path / "heat.png"), "--master": "local[2]"}
    image = tmp_path / "image.jpg"
    image.write_bytes(encode(next(iter(crops(1)))[3]))
    output = _refused("explain", options | {option: value.format(folder=tmp_path)}, monkeypatch, str(image))
    assert reason in output
    assert not (tmp_path / "heat.png").exists()


def test_explain_refuses_what_is_no_image(
    inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"--model": "squeezenet1_1", "--out": str(tmp_path / "heat.png"), "--master": "local[2]"}
    assert "not a JPEG" in _refused("explain", options, monkeypatch, inputs["--table"])
    assert "no such file" in _refused("explain", options, monkeypatch, str(tmp_path / "nowhere.jpg"))


def test_random_weights_are_one_loud_line(tmp_path: Path) -> None:
    (tmp_path / "image.jpg").write_bytes(encode(next(iter(crops(1)))[3]))
    patch = ("--image-size", "64", "--patch-size", "32", "--stride", "32")
    files = (str(tmp_path / "image.jpg"), "--out", str(tmp_path / "new" / "heat.png"))
    elsewhere = _vista("explain", *files, "--model", "squeezenet1_1", *patch, "--random-weights", "--device", "cuda:99")
    assert (elsewhere.returncode, elsewhere.stderr.count("\n")) == (2, 1), elsewhere.stderr
    assert "got 'cuda:99': use 'cpu' or 'auto'" in elsewhere.stderr
    done = _vista("explain", *files, "--model", "squeezenet1_1", *patch, "--random-weights", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["picture"] == str(tmp_path / "new" / "heat.png")
    assert told["target"] == told["predicted"]
    lines = [line for line in done.stderr.splitlines() if "random weights" in line]
    assert [line.partition(", drawn")[0] for line in lines] == [
        "RandomWeightsWarning: model 'squeezenet1_1' has random weights"
    ]
    assert (tmp_path / "new" / "heat.png").is_file()


def test_a_mistake_is_one_line_and_no_traceback(inputs: dict[str, str]) -> None:
    options = inputs | {"--table": "absent.parquet"}
    done = _vista("transfer", *_words(options))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert "absent.parquet" in line


def test_a_failed_job_is_one_line_and_exit_code_1(inputs: dict[str, str]) -> None:
    """Two rows, one of which has an image: too few to train and test on, which only Spark can count."""
    options = inputs | {"--master": "local[1]"}
    done = _vista("transfer", *_words(options))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "LabelError" in done.stderr or "EmptyInputError" in done.stderr


def test_help_waits_for_no_framework() -> None:
    code = "import sys, vista_spark.cli, cerebro_spark.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "tensorflow", "keras", "mlflow", "matplotlib", "skimage", "pulp"}
    assert not heavy & set(done.stdout.split())


def test_models_lists_layers_from_the_top() -> None:
    result = CliRunner().invoke(app, ["models"], env={"COLUMNS": "250"})
    assert result.exit_code == 0
    assert "1 fc8, 2 fc7, 3 fc6" in result.output


@pytest.mark.parametrize(
    ("command", "extra", "reason"),
    [
        ("transfer", (), "squeezenet1_1 has no trained weights here"),
        ("transfer", ("--weights", "imagenet"), "vista weights fetch squeezenet1_1"),
        ("transfer", ("--weights", "imagenet", "--model", "minilm_l6"), "it comes from a hub"),
        ("transfer", ("--random-weights", "--weights", "{weights}"), "leave out one of the two"),
        ("explain", (), "squeezenet1_1 has no trained weights here"),
        ("plan", ("--weights", "imagenet"), "vista weights fetch squeezenet1_1"),
    ],
)
def test_random_weights_are_asked_for(
    command: str,
    extra: tuple[str, ...],
    reason: str,
    inputs: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("vista_spark.sessions.session", lambda *_, **__: pytest.fail("Spark was started"))
    weights = tmp_path / "weights.pt"
    torch.save(roster.load("squeezenet1_1").state_dict(), weights)
    options = {name: inputs[name] for name in ("--images", "--table", "--label", "--model")}
    if command != "plan":
        options["--out"] = str(tmp_path / "heat.png")
    words = [word for pair in options.items() for word in pair]
    if command == "explain":
        words = [str(tmp_path / "images" / "1.jpg"), *words[-4:]]
    given = [word.format(weights=weights) for word in extra]
    done = CliRunner().invoke(app, [command, *words, *given], env={"COLUMNS": "400"})
    assert done.exit_code == 2, done.output
    assert reason in done.output


def test_class_folders_need_no_table_and_no_label(
    inputs: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One folder with images is one class: said before Spark starts."""
    (tmp_path / "images" / "cats").mkdir()
    (tmp_path / "images" / "1.jpg").rename(tmp_path / "images" / "cats" / "1.jpg")
    alone = {name: inputs[name] for name in ("--images", "--model", "--out")}
    assert "one folder with images, 'cats'" in _refused("transfer", alone, monkeypatch)
    assert "--label must name the column" in _refused("transfer", alone | {"--table": inputs["--table"]}, monkeypatch)
    without = {name: inputs[name] for name in ("--model", "--out")}
    assert "--images or --table must be given: name at least one" in _refused("transfer", without, monkeypatch)


@pytest.mark.slow
def test_a_folder_a_class_as_json(tmp_path: Path) -> None:
    for number, (label, *_, picture) in enumerate(crops(COUNT)):
        folder = tmp_path / "photos" / ("flowers" if label else "palaces") / "2026"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(encode(picture))
    options = {"--images": str(tmp_path / "photos"), "--model": "squeezenet1_1", "--layers": "fire5"}
    more = {"--out": str(tmp_path / "out"), "--master": "local[2]", "--test-fraction": "0.4"}
    done = _vista("transfer", *_words(options | more), "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert [row["features"] for row in said["layers"]] == ["no features", "fire5"]
    assert said["train_rows"] + said["test_rows"] == COUNT
    low, high = said["layers"][1]["low"], said["layers"][1]["high"]
    assert low <= said["layers"][1]["score"] <= high
    assert said["verdict"] in json.dumps(said)
    assert not [line for line in done.stderr.splitlines() if "WARN " in line or "log4j" in line]
    assert (tmp_path / "out" / "best_model").is_dir()


@pytest.mark.parametrize("room", ["vista_spark", "cerebro_spark"])
def test_version_and_completion(room: str) -> None:
    rooms = {"vista_spark": app, "cerebro_spark": import_module("cerebro_spark.cli").app}
    done = CliRunner().invoke(rooms[room], ["--version"])
    assert (done.exit_code, done.stdout) == (0, f"cerebro-spark {__version__}\n")
    shown = CliRunner().invoke(rooms[room], ["--help"], env={"COLUMNS": "200"})
    assert "--install-completion" in shown.stdout


def test_models_as_json() -> None:
    listed = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)["models"]
    (alexnet,) = (model for model in listed if model["name"] == "alexnet")
    assert alexnet["layers"][:2] == ["fc8", "fc7"]


def test_a_full_disk_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # put back what the command sets
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")

    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/data/out")

    with pytest.raises(SystemExit) as ended:
        run_command(full)
    assert ended.value.code == 1
    assert capsys.readouterr().err == "OSError: [Errno 28] No space left on device: '/data/out'\n"
