"""The operator without Airflow: words of the command, names of runs, lines in the log, XCom, and the end of a task."""

from __future__ import annotations

import doctest
import importlib
import logging
import os
import re
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import pytest
from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


# Settings of every operator that the guide and the example use.
_SETTINGS = {"retries", "retry_delay"}


class _BaseOperator:
    def __init__(self, *, task_id: str, **settings: object) -> None:
        assert settings.keys() <= _SETTINGS, settings
        self.task_id = task_id
        self.log = logging.getLogger("airflow.task")

    def __rshift__(self, other: Any) -> Any:
        return other


class _Dag:
    def __init__(self, dag_id: str, **_: object) -> None:
        self.dag_id = dag_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _TaskError(Exception):
    pass


class _FinalError(_TaskError):
    pass


@pytest.fixture
def operator(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The operator's class over a stand-in for Airflow, which has an environment of its own."""
    sdk, errors = ModuleType("airflow.sdk"), ModuleType("airflow.sdk.exceptions")
    sdk.BaseOperator, sdk.DAG = _BaseOperator, _Dag  # type: ignore[attr-defined]
    errors.AirflowException, errors.AirflowFailException = _TaskError, _FinalError  # type: ignore[attr-defined]
    for name, module in {
        "airflow": ModuleType("airflow"),
        "airflow.sdk": sdk,
        "airflow.sdk.exceptions": errors,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)
    from cerebro_spark.airflow import CerebroOperator

    yield CerebroOperator
    for name in [name for name in sys.modules if name.startswith("cerebro_spark.airflow")]:
        del sys.modules[name]


def context(run_id: str = "scheduled__2026-11-29", map_index: int = -1) -> dict[str, Any]:
    return {"ti": SimpleNamespace(dag_id="photos", task_id="search", run_id=run_id, map_index=map_index)}


def script(folder: Path, text: str) -> str:
    path = folder / "script.py"
    path.write_text(text)
    return str(path)


def test_a_search_gets_the_same_run_in_every_try(operator: Any, tmp_path: Path) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "{\\"words\\": \\"$*\\"}"\n')
    fake.chmod(0o755)
    task = operator(task_id="search", command=["tune", "search.py", "--out", "runs"], python=str(fake))
    words = task.execute(context())["words"]
    assert words == (
        "-m cerebro_spark tune search.py --out runs --run-id photos.search.scheduled__2026-11-29 --if-begun take_over "
        "--json"
    )
    assert task.execute(context())["words"] == words
    others = [task.execute(context(map_index=3))["words"], task.execute(context("manual__1"))["words"]]
    assert len({words, *others}) == 3, "two runs have one name"


@pytest.mark.parametrize(
    ("command", "run_id", "words"),
    [
        (["tune", "s.py", "--json"], "mine", "-m cerebro_spark tune s.py --json --run-id mine --if-begun take_over"),
        (["adapt", "c.py"], None, "-m cerebro_spark adapt c.py --json"),
        (["tables", "store"], None, "-m cerebro_spark tables store"),
        (["report.py", "--fast"], None, "report.py --fast"),
    ],
)
def test_words_of_other_commands(
    command: list[str], run_id: str | None, words: str, operator: Any, tmp_path: Path
) -> None:
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\necho "{\\"words\\": \\"$*\\"}"\n')
    fake.chmod(0o755)
    task = operator(task_id="any", command=command, run_id=run_id, python=str(fake))
    assert task.execute(context())["words"] == words


def test_lines_are_logged_and_the_object_is_returned(
    operator: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (
        "import os, sys\nprint('epoch 1', file=sys.stderr)\nprint('{not json}')\n"
        "print('{\"run_id\": \"%s\"}' % os.environ['CEREBRO_RUN_ID'])\n"
        "print(os.environ['STORE'], file=sys.stderr)"
    )
    task = operator(task_id="search", command=[script(tmp_path, text)], run_id="mine", env={"STORE": "s3://runs"})
    with caplog.at_level(logging.INFO, "airflow.task"):
        assert task.execute(context()) == {"run_id": "mine"}
    assert {"epoch 1", "{not json}", "s3://runs"} <= {record.getMessage() for record in caplog.records}


def test_a_failure_is_tried_again_but_for_a_wrong_argument(operator: Any, tmp_path: Path) -> None:
    ends = "import sys; print('StoreError: the disk is full', file=sys.stderr); sys.exit({})"
    task = operator(task_id="search", command=[script(tmp_path, ends.format(1))])
    with pytest.raises(_TaskError, match="ended with exit code 1: StoreError: the disk is full") as failed:
        task.execute(context())
    assert not isinstance(failed.value, _FinalError)
    task = operator(task_id="search", command=[script(tmp_path, ends.format(2))])
    with pytest.raises(_FinalError, match="exit code 2"):
        task.execute(context())


@pytest.mark.parametrize("deaf", [False, True], ids=["ends", "hangs"])
def test_a_task_that_is_stopped_ends_its_processes(deaf: bool, operator: Any, tmp_path: Path) -> None:
    """By an interrupt, so that a search can end its jobs; by force if it does not, and with its children."""
    text = (
        "import pathlib, signal, subprocess, sys, time\n"
        f"if {deaf}: signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(300)'])\n"
        "place = pathlib.Path(sys.argv[1])\n"
        "(place / 'child').write_text(str(child.pid))\n"
        "try:\n"
        "    (place / 'begun').touch()\n"
        "    time.sleep(300)\n"
        "except KeyboardInterrupt: (place / 'interrupted').touch(); sys.exit(130)\n"
    )
    task = operator(task_id="search", command=[script(tmp_path, text), str(tmp_path)], grace_s=0.5 if deaf else 60.0)
    raised: list[Exception] = []

    def run() -> None:
        try:
            task.execute(context())
        except _TaskError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    task.on_kill()
    thread.join(60)
    assert raised
    assert (tmp_path / "interrupted").exists() is not deaf
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 60
    while _lives(child):
        assert time.monotonic() < deadline, "a child was left"
        time.sleep(0.05)


def test_a_task_that_is_stopped_before_its_process_runs_starts_none(operator: Any, tmp_path: Path) -> None:
    from cerebro_spark.airflow._process import LoggedProcess

    process = LoggedProcess([sys.executable, "-c", "print(1)"], os.environ, write=print)
    process.stop(60.0)
    assert process.run() < 0


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("tune search.py", "command must be a list of words"),
        ([], "command must be a list of words"),
        (["tuna", "search.py"], "command must begin with one of tune, adapt, fsck, tables, or with a script"),
        (["tune", "search.py", "--run-id", "mine"], r"command must be without --run-id.*run_id="),
        (["tune", "search.py", "--resume=mine"], "command must be without --resume"),
    ],
)
def test_wrong_commands_are_refused_when_the_dag_is_read(command: Any, message: str, operator: Any) -> None:
    with pytest.raises(ValueError, match=message):
        operator(task_id="search", command=command)


def test_the_guide_and_the_example_have_keywords_of_today(operator: Any) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "airflow.md").read_text(), re.DOTALL)
    for source in (block, (ROOT / "examples" / "airflow" / "adult_search.py").read_text()):
        names: dict[str, Any] = {}
        exec(source, names)
        assert isinstance(names["search"], operator)
        assert names["search"].task_id == "search"


@pytest.mark.parametrize("module", ["_operator", "_process", "_run_names"])
def test_examples(module: str, operator: Any) -> None:
    done = doctest.testmod(importlib.import_module(f"cerebro_spark.airflow.{module}"))
    assert done.attempted
    assert not done.failed


def test_names_of_runs_are_names_of_the_store(operator: Any) -> None:
    from cerebro_spark.airflow._run_names import run_name
    from udfs.names import check_name

    names = [
        run_name("photos", "search"),
        run_name("a b", "search"),
        run_name("a-b", "search"),
        run_name("ä", "x" * 300),
        run_name("ä", "x" * 301),
        run_name(".hidden", "search"),
        run_name("photos", "search", "scheduled__2026-11-29T00:00:00+00:00"),
        run_name("photos", "search", "scheduled__2026-11-29T00:00:00-00:00"),
    ]
    assert len(set(names)) == len(names)
    for name in names:
        check_name(name, "a run")
