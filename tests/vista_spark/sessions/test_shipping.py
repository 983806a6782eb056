"""What travels to the workers: which weights do, under which names, and the packages as an archive."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from sessions import CONNECT
from typer.testing import CliRunner

from udfs.weights import SHIPPED, WeightsError, read_state_dict
from vista_spark import __version__
from vista_spark.cli import app
from vista_spark.errors import InvalidArgumentError
from vista_spark.sessions import ship_packages, ship_weights, write_packages

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.skipif(CONNECT, reason="what a Connect session is sent is tested against a server's workers")


class Session:
    """Records what a session is sent."""

    def __init__(self, master: str) -> None:
        self.master = master
        self.sent: list[tuple[str, bytes, dict[str, bool]]] = []

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.master": self.master}

    def addArtifacts(self, path: str, **kind: bool) -> None:
        with open(path, "rb") as file:  # noqa: PTH123  (as Spark takes it: a word)
            self.sent.append((path.rpartition("/")[2], file.read(), kind))


def cluster() -> Any:
    return Session("spark://host:7077")


def test_a_local_session_reads_the_file_itself(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"x")
    assert ship_weights(spark, str(tmp_path / "w.pt")) == str(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("master", "ships"),
    [("local", False), ("local[*]", False), ("local[2,4]", False), ("local-cluster[2,1,1024]", True), ("yarn", True)],
)
def test_workers_elsewhere_are_sent_the_file(master: str, ships: bool, tmp_path: Path) -> None:
    (tmp_path / "w.pt").write_bytes(b"x")
    session: Any = Session(master)
    name = ship_weights(session, str(tmp_path / "w.pt"))
    assert len(session.sent) == ships
    assert (name != str(tmp_path / "w.pt")) == ships


@pytest.mark.parametrize("weights", [None, "s3://bucket/w.pt", "hdfs://host/w.pt", "file:///nfs/w.pt"])
def test_a_uri_is_for_the_workers_to_open(weights: str | None) -> None:
    session = cluster()
    assert ship_weights(session, weights) == weights
    assert not session.sent


def test_files_are_told_apart_by_their_content_and_sent_once(tmp_path: Path) -> None:
    contents = {"a": b"one", "b": b"two", "c": b"one"}
    for folder, content in contents.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "w.pt").write_bytes(content)
    first, second = cluster(), cluster()
    names = {folder: ship_weights(first, str(tmp_path / folder / "w.pt")) for folder in contents}
    assert names["a"] == names["c"] != names["b"]
    assert [content for _, content, _ in first.sent] == [b"one", b"two"]
    assert [f"{SHIPPED}{name}" for name, _, _ in first.sent] == [names["a"], names["b"]]
    assert all(kind == {"pyfile": False, "file": True} for _, _, kind in first.sent)
    assert ship_weights(second, str(tmp_path / "a" / "w.pt")) == names["a"]
    assert len(second.sent) == 1


def test_a_file_written_anew_is_sent_anew_and_the_one_before_stays(tmp_path: Path) -> None:
    sent: list[str] = []

    class Late(Session):
        def addArtifacts(self, path: str, **_kind: bool) -> None:
            sent.append(path)

    session: Any = Late("yarn")
    for content in ("before", "after it"):
        (tmp_path / "w.pt").write_text(content)
        ship_weights(session, str(tmp_path / "w.pt"))
    (tmp_path / "w.pt").unlink()
    # Classic Spark serves a file from where it lies, to executors that may come much later.
    found = []
    for path in sent:
        with open(path) as file:  # noqa: PTH123
            found.append(file.read())
    assert found == ["before", "after it"]


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"none\.pt cannot be shipped"):
        ship_weights(cluster(), str(tmp_path / "none.pt"))


def test_a_name_that_was_never_sent_is_said(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1  # SparkFiles has a folder once there is a session
    with pytest.raises(WeightsError, match="sparkfile:nothing is not among the files"):
        read_state_dict("sparkfile:nothing")


def test_the_archive_alone_is_enough_to_import_every_module(tmp_path: Path) -> None:
    archive = write_packages(tmp_path / "dist")
    assert archive.name == f"cerebro_spark-{__version__}.zip"
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert "vista_spark/py.typed" in names
    assert not [name for name in names if "__pycache__" in name]
    modules = [name.removesuffix(".py").replace("/", ".") for name in names if name.endswith(".py")]
    # What an extra that is not installed is needed for would fail wherever it was imported from.
    code = (
        "import importlib, sys\n"
        f"sys.path.insert(0, {str(archive)!r})\n"
        f"for name in {modules!r}:\n"
        # Programs, and the environment that Alembic runs, are not for import.
        "    if not name.endswith(('__main__', 'migrations.env')):\n"
        "        try: module = importlib.import_module(name.removesuffix('.__init__'))\n"
        "        except ModuleNotFoundError as error:\n"
        f"            assert error.name.split('.')[0] not in {{name.split('.')[0] for name in {modules!r}}}, error\n"
        f"        else: assert module.__file__.startswith({str(archive)!r}), module\n"
        # And from an archive an equal one is made: a submitted driver may send itself on to a Connect server.
        "from pathlib import Path\n"
        "from vista_spark.sessions import write_packages\n"
        f"again = write_packages(Path({str(tmp_path / 'again')!r}))\n"
        f"assert again.read_bytes() == Path({str(archive)!r}).read_bytes()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_equal_sources_make_equal_archives(tmp_path: Path) -> None:
    first, second = (write_packages(tmp_path / name).read_bytes() for name in ("a", "b"))
    assert first == second


def test_packages_are_sent_once_a_session() -> None:
    session = cluster()
    ship_packages(session)
    ship_packages(session)
    ((name, content, kind),) = session.sent
    assert name.startswith(f"cerebro_spark-{__version__}-")
    assert name.endswith(".zip")
    assert content.startswith(b"PK")
    assert kind == {"pyfile": True, "file": False}


def test_package_writes_what_spark_submit_takes(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["package", "--out", str(tmp_path / "dist")])
    assert result.exit_code == 0, result.output
    script = (tmp_path / "dist" / "vista.py").read_text()
    assert "main()" in script
    done = subprocess.run(
        [sys.executable, str(tmp_path / "dist" / "vista.py"), "models"], capture_output=True, text=True, check=False
    )
    assert "squeezenet1_1" in done.stdout, done.stderr


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = CliRunner().invoke(app, ["package", "--out", str(tmp_path / "taken")])
    assert result.exit_code == 2
    assert "is a file: name a folder" in " ".join(result.output.replace("│", " ").split())
    with pytest.raises(InvalidArgumentError, match=r"cannot be written.*name another folder"):
        write_packages(tmp_path / "taken")
