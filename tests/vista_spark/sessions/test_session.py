"""Starting Spark, and what stands in its way."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from places import ROOT
from sessions import CONNECT

from vista_spark import session

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def _python(code: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd,
        env={"PATH": "/nonexistent", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_java_is_said_with_the_remedy(tmp_path: Path) -> None:
    done = _python("from vista_spark import session; session('local[1]')", tmp_path)
    assert "JavaNotFoundError" in done.stderr
    assert "openjdk-17" in done.stderr


def test_java_home_without_java_is_not_enough(tmp_path: Path) -> None:
    done = _python("from vista_spark import session; session('local[1]')", tmp_path, JAVA_HOME=str(tmp_path))
    assert "JavaNotFoundError" in done.stderr


@pytest.mark.parametrize("package", ["optimizer", "udfs"])
def test_a_users_file_that_hides_a_package_is_named(tmp_path: Path, package: str) -> None:
    (tmp_path / f"{package}.py").write_text("x = 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import vista_spark"
    done = _python(code, tmp_path)
    assert done.returncode != 0
    assert f"cerebro-spark's package '{package}' is hidden" in done.stderr
    assert str(tmp_path / f"{package}.py") in done.stderr


def test_a_users_folder_that_hides_a_package_is_named(tmp_path: Path) -> None:
    (tmp_path / "optimizer").mkdir()
    (tmp_path / "optimizer" / "__init__.py").write_text("")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import vista_spark"
    assert str(tmp_path / "optimizer") in _python(code, tmp_path).stderr


def test_no_pyspark_is_said_with_the_remedy(tmp_path: Path) -> None:
    """It comes with an extra: a cluster has its own."""
    code = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]; {}"
    for statement in ("from vista_spark import FeatureTransfer", "from cerebro_spark import GridSearch"):
        done = _python(code.format(statement), tmp_path)
        assert done.returncode != 0
        assert (
            "cerebro-spark needs pyspark 4, which is not installed here: pip install 'cerebro-spark[spark]'"
            in done.stderr
        )


@pytest.mark.skipif(CONNECT, reason="a Connect client joins a server by its address")
def test_a_session_that_is_there_keeps_its_settings(spark: SparkSession) -> None:
    before = {name: spark.conf.get(name) for name in ("spark.driver.memory", "spark.sql.shuffle.partitions")}
    there = session("local[1]", conf={"spark.sql.ansi.enabled": "true"})
    assert there.range(1).count() == 1
    assert {name: there.conf.get(name) for name in before} == before
    assert there.conf.get("spark.sql.ansi.enabled") == "true"
