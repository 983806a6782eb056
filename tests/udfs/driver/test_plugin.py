"""The jar of the JVM plugin: its place, its settings, and that it is of these sources."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from places import ROOT
from sessions import CONNECT
from typer.testing import CliRunner

from optimizer import __version__
from udfs.driver import _launch, _plugin, plugin_conf, plugin_jar
from vista_spark.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(CONNECT, reason="once is enough")

OURS = {
    "spark.plugins": "org.cerebro.spark.CerebroPlugin",
    "spark.sql.extensions": "org.cerebro.spark.CerebroExtensions",
}


@pytest.fixture
def jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in for an installation with a jar."""
    made = tmp_path / f"cerebro-spark_2.13-{__version__}.jar"
    made.write_bytes(b"")
    monkeypatch.setattr(_plugin, "__file__", str(tmp_path / "_plugin.py"))
    return made


@pytest.fixture
def no_jar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_plugin, "__file__", str(tmp_path / "_plugin.py"))


@pytest.fixture(autouse=True)
def _no_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_settings_load_both_classes(jar: Path) -> None:
    assert plugin_jar() == jar
    assert plugin_conf() == {"spark.jars": str(jar), **OURS}


@pytest.mark.usefixtures("no_jar")
def test_nothing_is_set_without_a_jar() -> None:
    assert plugin_jar() is None
    assert plugin_conf({"spark.plugins": "org.example.Other"}) == {}


def test_a_jar_of_another_version_is_none(jar: Path) -> None:
    jar.rename(jar.with_name("cerebro-spark_2.13-0.0.1.jar"))
    assert plugin_jar() is None


def test_settings_of_the_caller_stay(jar: Path) -> None:
    theirs = {"spark.jars": "/a.jar, /b.jar", "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"}
    conf = plugin_conf(theirs)
    assert conf["spark.jars"] == f"/a.jar,/b.jar,{jar}"
    assert conf["spark.sql.extensions"].startswith("io.delta.sql.DeltaSparkSessionExtension,org.cerebro")
    assert plugin_conf(conf) == conf, "appended twice"


@pytest.mark.parametrize("line", ["{} {}", "{}   {}  ", "{}={}", "{}: {}"])
def test_settings_of_spark_defaults_stay(jar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    lines = ["# spark.plugins org.example.Comment", "", line.format("spark.plugins", "org.example.Other")]
    (tmp_path / "spark-defaults.conf").write_text("\n".join(lines))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert plugin_conf()["spark.plugins"] == f"org.example.Other,{OURS['spark.plugins']}"
    assert plugin_conf({"spark.plugins": "org.example.Session"})["spark.plugins"].startswith(
        "org.example.Session,org.c"
    )


class _Builder:
    """Recorder of the settings that a session would start with."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self

    def config(self, key: str, value: str) -> _Builder:
        self.settings[key] = value
        return self


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Builder]:
    recorder = _Builder()

    class Session:
        builder = recorder

        @staticmethod
        def getActiveSession() -> None:
            return None

    monkeypatch.setattr(_launch, "SparkSession", Session)
    monkeypatch.setattr(_launch, "find_java", lambda: "java")
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    return recorder


@pytest.mark.parametrize("master", ["local[2]", "spark://host:7077"])
def test_a_spark_that_starts_loads_the_plugin(jar: Path, builder: _Builder, master: str) -> None:
    _launch.launch(master, {"spark.jars": "/a.jar"}, name="test")
    assert builder.settings["spark.jars"] == f"/a.jar,{jar}"
    assert builder.settings.items() >= OURS.items()


@pytest.mark.parametrize(
    ("master", "variable"),
    [
        ("sc://host:15002", None),
        (None, "PYSPARK_GATEWAY_PORT"),  # spark-submit: its JVM runs, and would not find the classes
        ("local[2]", "PYSPARK_SUBMIT_ARGS"),
        ("local[2]", "SPARK_REMOTE"),
    ],
)
@pytest.mark.usefixtures("jar")
def test_a_spark_that_cannot_load_it_is_not_asked_to(
    builder: _Builder, monkeypatch: pytest.MonkeyPatch, master: str | None, variable: str | None
) -> None:
    if variable:
        monkeypatch.setenv(variable, "1")
    _launch.launch(master, {"spark.jars": "/a.jar"}, name="test")
    assert builder.settings["spark.jars"] == "/a.jar"
    assert not builder.settings.keys() & OURS.keys()


def test_vista_jar_prints_the_path(jar: Path) -> None:
    done = CliRunner().invoke(app, ["jar"])
    assert (done.exit_code, done.output.replace("\n", "")) == (0, str(jar))


@pytest.mark.usefixtures("no_jar")
def test_vista_jar_names_the_remedy() -> None:
    done = CliRunner().invoke(app, ["jar"])
    assert done.exit_code == 2
    assert "make jvm" in done.output


def _build_script() -> Any:
    spec = spec_from_file_location("build_jar", ROOT / "src" / "build_jar.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_jar_has_the_classes_of_these_sources(tmp_path: Path) -> None:
    """Fails if a source changed after the last ``make jvm``."""
    packed = plugin_jar()
    if packed is None:
        pytest.skip("make jvm builds the jar")
    if not pyspark.__version__.startswith("4.3"):
        pytest.skip("another Scala compiler writes other bytes")
    script = _build_script()
    assert packed.name == script.jar_name()
    script.compile_sources(script.MAIN, tmp_path / "classes")
    script.pack(tmp_path / "classes", tmp_path / packed.name)
    with zipfile.ZipFile(packed) as old, zipfile.ZipFile(tmp_path / packed.name) as new:
        assert {name: old.read(name) for name in old.namelist()} == {name: new.read(name) for name in new.namelist()}
    assert packed.read_bytes() == (tmp_path / packed.name).read_bytes(), "a build is not reproducible"


def test_a_plugin_without_the_extension_is_told_the_setting(tmp_path: Path) -> None:
    packed = plugin_jar()
    if packed is None:
        pytest.skip("make jvm builds the jar")
    code = f"""
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.jars", {str(packed)!r})
    .config("spark.plugins", "org.cerebro.spark.CerebroPlugin").getOrCreate()
)
print("ROWS", spark.range(3).count())
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=dict(os.environ)
    )
    assert "ROWS 3" in done.stdout, done.stderr
    assert "spark.sql.extensions must contain org.cerebro.spark.CerebroExtensions" in done.stderr


def test_session_starts_spark_with_the_plugin(tmp_path: Path) -> None:
    if plugin_jar() is None:
        pytest.skip("make jvm builds the jar")
    code = """
from vista_spark import session
spark = session("local[1]", conf={"spark.ui.enabled": "false"})
print("ROWS", spark.range(3).count(), spark.conf.get("spark.plugins"))
"""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert f"ROWS 3 {OURS['spark.plugins']}" in done.stdout, done.stderr
    assert "is off" not in done.stderr


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, False),
        ({"spark.sql.extensions": "delta.Extensions"}, False),
        ({"spark.sql.extensions": "delta.Extensions,org.cerebro.spark.CerebroExtensions"}, True),
        (
            {"spark.sql.extensions": "org.cerebro.spark.CerebroExtensions", "spark.cerebro.pushdown": "false"},
            False,
        ),
    ],
)
def test_a_session_has_the_rule_if_it_is_loaded_and_enabled(conf: dict[str, str], expected: bool) -> None:
    assert _plugin.has_pushdown_rule(SimpleNamespace(conf=conf)) is expected  # type: ignore[arg-type]
