"""``vista compile`` and ``vista score``: model files in, predictions out; what is no model file is refused."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("sklearn")
lightgbm = pytest.importorskip("lightgbm")

from sessions import CONNECT
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier
from typer.testing import CliRunner

from vista_spark import CompiledPipeline, compile_pipeline
from vista_spark.cli import app
from vista_spark.cli._score import _as_numbers

if TYPE_CHECKING:
    from click.testing import Result
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

COLUMNS = ["radius", "texture", "größe"]
SPACED = ["mean radius", "texture", "große  Fläche"]


def table() -> tuple[pd.DataFrame, NDArray[Any]]:
    rows, labels = load_breast_cancer(return_X_y=True)
    return pd.DataFrame(rows[:, :3], columns=COLUMNS), labels


@pytest.fixture(scope="module")
def model() -> Any:
    return lightgbm.LGBMClassifier(n_estimators=4, num_leaves=6, verbose=-1, n_jobs=1).fit(*table())


@pytest.fixture
def text(model: Any, tmp_path: Path) -> Path:
    model.booster_.save_model(tmp_path / "model.txt")
    return tmp_path / "model.txt"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_a_model_text_becomes_a_compiled_pipeline(model: Any, text: Path) -> None:
    out = text.parent / "new" / "model.safetensors"
    done = run("compile", text, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    facts = json.loads(done.output.splitlines()[-1])
    compiled = CompiledPipeline.load(out)
    assert facts == {
        "out": str(out),
        "bytes": out.stat().st_size,
        "digest": compiled.program.digest,
        "outputs": ["predict", "apply"],
        "width": 3,
        "columns": COLUMNS,
    }
    rows, _ = table()
    np.testing.assert_array_equal(compiled.predict(rows), model.booster_.predict(rows))
    assert "Trees(" in run("compile", text, "--out", text.parent / "other.safetensors").output
    again = run("compile", text, "--out", out)
    assert again.exit_code == 2, "an existing file is not overwritten"
    assert "is there already" in again.output


def test_boosters_of_other_libraries(tmp_path: Path) -> None:
    xgboost, catboost = pytest.importorskip("xgboost"), pytest.importorskip("catboost")
    rows, labels = table()
    boosted = xgboost.XGBRegressor(n_estimators=3, n_jobs=1).fit(rows, labels)
    cat = catboost.CatBoostRegressor(n_estimators=3, silent=True, allow_writing_files=False).fit(rows, labels)
    files = {name: tmp_path / name for name in ("model.json", "model.ubj", "cat.cbm", "cat.json")}
    boosted.save_model(files["model.json"])
    boosted.save_model(files["model.ubj"])
    cat.save_model(str(files["cat.cbm"]))
    cat.save_model(str(files["cat.json"]), format="json")
    for name, file in files.items():
        done = run("compile", file, "--out", tmp_path / f"{name}.safetensors")
        assert done.exit_code == 0, done.output
        truth = (cat if name.startswith("cat") else boosted).predict(rows)
        ours = CompiledPipeline.load(tmp_path / f"{name}.safetensors").predict(rows.to_numpy())
        np.testing.assert_allclose(ours, truth, rtol=1e-6)


def test_a_file_is_never_unpickled(model: Any, tmp_path: Path) -> None:
    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.touch, (tmp_path / "harm",)

    for name, protocol in (("model.bin", 4), ("model.pkl", 0)):
        (tmp_path / name).write_bytes(pickle.dumps(Harm(), protocol))
        done = run("compile", tmp_path / name, "--out", tmp_path / "out.safetensors")
        assert done.exit_code == 2
        assert "would run whatever code is in it" in done.output
        assert f"compile_pipeline(load('{tmp_path / name}')).save('model.safetensors')" in done.output
    joblib = pytest.importorskip("joblib")
    for compress in (0, 3, ("xz", 3)):
        joblib.dump(model, tmp_path / "packed.dat", compress=compress)
        assert run("compile", tmp_path / "packed.dat", "--out", tmp_path / "out.safetensors").exit_code == 2
    assert not (tmp_path / "harm").exists()
    assert not (tmp_path / "out.safetensors").exists()


def test_a_folder_and_other_packages(tmp_path: Path) -> None:
    """What cannot be read here is said in Python that can."""
    spark, other, skops = tmp_path / "spark", tmp_path / "other", tmp_path / "model.skops"
    (spark / "metadata").mkdir(parents=True)
    other.mkdir()
    skops.write_bytes(b"PK junk")
    out = tmp_path / "out.safetensors"
    for kind, module, name in (
        ("org.apache.spark.ml.PipelineModel", "pyspark.ml", "PipelineModel"),
        (
            "org.apache.spark.ml.classification.GBTClassificationModel",
            "pyspark.ml.classification",
            "GBTClassificationModel",
        ),
        ("pyspark.ml.pipeline.PipelineModel", "pyspark.ml.pipeline", "PipelineModel"),
    ):
        (spark / "metadata" / "part-00000").write_text(json.dumps({"class": kind, "timestamp": 1}))
        done = run("compile", spark, "--out", out)
        assert done.exit_code == 2
        assert f"from {module} import {name}\n" in done.output
        assert f"compile_pipeline({name}.load('{spark}')).save('spark.safetensors')" in done.output
    done = run("compile", other, "--out", out)
    assert (done.exit_code, "is a folder; name a compiled pipeline" in done.output) == (2, True)
    done = run("compile", skops, "--out", out)
    assert (done.exit_code, "from skops.io import load" in done.output) == (2, True)


@pytest.mark.parametrize("command", ["compile", "score"])
def test_what_is_no_model_file(command: str, text: Path) -> None:
    folder = text.parent
    compile_pipeline(lightgbm.Booster(model_file=str(text))).save(folder / "good.safetensors")
    good = bytearray((folder / "good.safetensors").read_bytes())
    contents: dict[str, bytes] = {
        "empty": b"",
        "noise": bytes(range(1, 200)),
        "cut.safetensors": bytes(good[:-20]),
        "cut.txt": text.read_bytes()[:300],
        "model.onnx": b"\x08junk",
        "model.cbm": b"CBM1junk",
    }
    good[-3] ^= 1
    contents["altered.safetensors"] = bytes(good)
    rest = ["--table", folder / "table.csv", "--out", folder / "out"] if command == "score" else ["--out", folder / "o"]
    (folder / "table.csv").write_text("radius,texture,größe\n1,2,3\n")
    for name, data in contents.items():
        (folder / name).write_bytes(data)
        done = run(command, folder / name, *rest)
        assert (done.exit_code, done.output.count("Traceback")) == (2, 0), (name, done.output)
        assert name in done.output
    done = run(command, folder / "missing.txt", *rest)
    assert done.exit_code == 2
    assert "No such file" in done.output


def test_scoring_is_checked_before_spark(text: Path) -> None:
    folder = text.parent
    (folder / "table.csv").write_text("radius,texture,other\n1,2,3\n")
    (folder / "taken.csv").write_text("radius,texture,größe,prediction\n1,2,3,4\n")
    (folder / "there").mkdir()
    good = "radius,texture,other"
    for wrong, why in (
        (["--table", folder / "table.csv", "--out", folder / "o"], "no column 'größe'"),
        (["--table", folder / "taken.csv", "--out", folder / "o"], "columns prediction, which are to be added"),
        (["--table", folder / "no.csv", "--out", folder / "o"], "no such file"),
        (["--table", folder / "table.csv", "--out", folder / "there", "--features", good], "is there already"),
        (
            ["--table", folder / "table.csv", "--out", folder / "o", "--features", "radius"],
            "--features must name the 3 columns",
        ),
        (["--table", folder / "table.csv", "--out", folder / "o", "--errors", "skip"], "null, drop, raise"),
    ):
        done = run("score", text, *wrong)
        assert done.exit_code == 2, done.output
        assert why in " ".join(done.output.replace("│", " ").split()), done.output
    nameless = compile_pipeline(lightgbm.LGBMRegressor(n_estimators=1, verbose=-1).fit(np.eye(40), np.arange(40)))
    nameless.save(folder / "nameless.safetensors")
    done = run("score", folder / "nameless.safetensors", "--table", folder / "table.csv", "--out", folder / "o")
    assert done.exit_code == 2
    assert "takes 40 columns and does not know their names" in done.output


def test_names_that_lightgbm_writes_otherwise(tmp_path: Path) -> None:
    rows, labels = table()
    rows.columns = SPACED
    model = lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1).fit(rows, labels)
    model.booster_.save_model(tmp_path / "model.txt")
    done = run("compile", tmp_path / "model.txt", "--out", tmp_path / "model.safetensors", "--json")
    assert json.loads(done.output.splitlines()[-1])["columns"] == ["mean_radius", "texture", "große__Fläche"]
    compiled = CompiledPipeline.load(tmp_path / "model.safetensors")
    assert compiled.columns_in(["id", *reversed(SPACED)]) == SPACED
    assert compiled.columns_in([*SPACED, "mean_radius"]) == ["mean_radius", *SPACED[1:]], "its own name comes first"
    two = compiled.columns_in([*SPACED, "große_ Fläche"])
    assert two == [*SPACED[:2], "große__Fläche"], "of two that could be meant, neither is"
    np.testing.assert_array_equal(compiled.predict(rows[SPACED[::-1]]), model.booster_.predict(rows))
    # The command looks at the header before it starts Spark.
    (tmp_path / "table.csv").write_text(f"{','.join([*SPACED, 'error'])}\n1,2,3,4\n")
    done = run("score", tmp_path / "model.safetensors", "--table", tmp_path / "table.csv", "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert "columns error, which are to be added" in " ".join(done.output.split())
    (tmp_path / "table.csv").write_text("radius,texture\n1,2\n")
    done = run("score", tmp_path / "model.safetensors", "--table", tmp_path / "table.csv", "--out", tmp_path / "o")
    assert done.exit_code == 2
    assert "no column 'mean_radius'" in " ".join(done.output.split())


def test_names_of_other_libraries_are_as_they_are() -> None:
    rows, labels = table()
    rows.columns = ["mean_radius", *SPACED[1:]]
    compiled = compile_pipeline(DecisionTreeClassifier(max_depth=2).fit(rows, labels))
    assert compiled.columns_in(SPACED) == list(rows.columns)


@pytest.mark.extended
def test_columns_without_a_number(spark: SparkSession) -> None:
    """Separated values give texts where there is nothing to infer a type from."""
    schema = "a string, `b c` string, d double, e string"
    none = _as_numbers(spark.createDataFrame([], schema), ["a", "b c", "d"])
    assert dict(none.dtypes) == {"a": "double", "b c": "double", "d": "double", "e": "string"}
    some = _as_numbers(spark.createDataFrame([(None, "x", None, None)], schema), ["a", "b c", "d"])
    assert dict(some.dtypes) == {"a": "double", "b c": "string", "d": "double", "e": "string"}


@pytest.mark.extended
@pytest.mark.skipif(CONNECT, reason="the command starts its own Spark")
@pytest.mark.slow
def test_a_table_is_scored(tmp_path: Path) -> None:
    """Separated values: columns in another order, with spaces, whole numbers, and some that are missing."""
    rows, labels = table()
    rows.columns = SPACED
    rows["texture"] = rows["texture"].round()
    model = lightgbm.LGBMClassifier(n_estimators=4, num_leaves=6, verbose=-1, n_jobs=1).fit(rows, labels)
    model.booster_.save_model(tmp_path / "model.txt")
    rows.loc[::7, "mean radius"] = np.nan
    file = tmp_path / "table.csv"
    rows[SPACED[::-1]].assign(texture=rows["texture"].astype(int), id=np.arange(len(rows))).to_csv(file, index=False)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "vista_spark", "score", str(tmp_path / "model.txt"), "--table", str(file)),
            *("--out", str(tmp_path / "scored"), "--json", "--master", "local[1]"),
        ],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    scored = pd.read_parquet(tmp_path / "scored").sort_values("id")
    assert (facts["rows"], facts["refused"]) == (len(rows), 0)
    assert facts["columns"] == [*SPACED[::-1], "id", "prediction", "error"]
    np.testing.assert_array_equal(scored["prediction"], model.booster_.predict(rows))
    assert scored["error"].isna().all()
