"""A JVM that logs errors alone, unless the user has set how it logs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from udfs.cli._jvm_logging import quiet_spark

if TYPE_CHECKING:
    import pytest


def test_settings_of_the_users_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dlog4j2.configurationFile=mine.xml")
    quiet_spark()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Dlog4j2.configurationFile=mine.xml"
    (tmp_path / "log4j2.properties").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    quiet_spark()
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-Da=b"
    monkeypatch.delenv("SPARK_CONF_DIR")
    quiet_spark()
    before, ours = os.environ["SPARK_SUBMIT_OPTS"].split()
    assert before == "-Da=b"
    written = Path(ours.removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = error" in written.read_text()
