"""Airflow operator for the commands of cerebro-spark."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, ClassVar

try:
    from airflow.sdk import BaseOperator
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "CerebroOperator needs Airflow 3.1 or newer: install cerebro-spark[airflow] where Airflow's workers run",
        name=error.name,
    ) from error

from cerebro_spark.airflow._process import LoggedProcess
from cerebro_spark.airflow._run_names import run_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

__all__ = ["CerebroOperator"]

_COMMANDS = ("tune", "adapt", "fsck", "tables")
_RESUMED = "tune"
_WITH_JSON = ("tune", "adapt")
_USAGE = 2


class CerebroOperator(BaseOperator):  # type: ignore[misc]
    """Run a command of ``cerebro``, or a script, in a process of its own.

    What the process prints is in the task's log while it runs. ``cerebro tune`` gets the same ``--run-id`` in every try
    of a task, and ``--if-begun take_over``: a retry goes on from the last checkpoints of the try before, whose driver
    is stopped if it is still alive, and a task whose search is complete ends with its results at once. To train anew,
    give another `run_id`.

    Parameters
    ----------
    command : sequence of str
        Words of the command: ``["tune", "search.py", "--table", ...]``, or ``["report.py", ...]`` for a script, which
        finds the name of its run in the variable ``CEREBRO_RUN_ID``. Templated.
    run_id : str, optional
        Name of the run in the store. By default made of the ids of DAG, DAG run and task, and the map index. Templated.
    python : str, optional
        Python with cerebro-spark and the framework of the networks; by default that of Airflow's worker. Templated.
    env : mapping of str to str, optional
        Variables beside those of the worker, such as ``MLFLOW_TRACKING_URI``. Templated.
    cwd : str, optional
        Folder in which the command runs. Templated.
    grace_s : float
        Seconds that the process has to end its Spark jobs when the task is stopped, before it is killed. Default 60.
    **settings : Any
        Settings of every operator, such as ``task_id``, ``retries`` and ``retry_delay``.

    Raises
    ------
    ValueError
        ``command`` is empty, or its first word is neither a command of ``cerebro`` nor a script; or it has options that
        the operator gives itself (``--run-id``, ``--resume``, ``--if-begun``).

    Notes
    -----
    :meth:`execute` returns the JSON object that the command prints (for ``tune``: ``run_id``, ``best``, ``trials`` and
    ``out``), which later tasks find in XCom. A wrong argument fails the task without further tries.

    Examples
    --------
    >>> CerebroOperator(
    ...     task_id="search",
    ...     command=["tune", "search.py", "--table", "t.parquet", "--out", "/data/photos/{{ ds }}"],
    ...     retries=2,
    ... ).command[0]
    'tune'
    """

    template_fields: ClassVar[Sequence[str]] = ("command", "run_id", "python", "env", "cwd")

    def __init__(
        self,
        *,
        command: Sequence[str],
        run_id: str | None = None,
        python: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        grace_s: float = 60.0,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        _check_command(command)
        self.command = list(command)
        self.run_id = run_id
        self.python = python
        self.env = dict(env or {})
        self.cwd = cwd
        self.grace_s = grace_s
        self._running: LoggedProcess | None = None

    def execute(self, context: Context) -> dict[str, Any] | None:
        """Run the command, and return what it prints as JSON.

        Raises
        ------
        AirflowFailException
            An argument or a file is wrong: another try would fail, too.
        AirflowException
            The command failed.
        """
        run = self.run_id or _name_of(context)
        words = _words(self.command, self.python or sys.executable, run)
        self.log.info("run %s: %s", run, " ".join(words))
        self._running = LoggedProcess(
            words, os.environ | self.env | {"CEREBRO_RUN_ID": run}, write=self.log.info, cwd=self.cwd
        )
        code = self._running.run()
        if code == 0:
            return self._running.summary
        message = f"{self.command[0]} ended with exit code {code}: {self._running.last_line or 'it printed nothing'}"
        if code == _USAGE:
            raise AirflowFailException(message)
        raise AirflowException(message)

    def on_kill(self) -> None:
        """Stop the search: its workers end, and what it has trained stays in the store."""
        if self._running is not None:
            self._running.stop(self.grace_s)


def _check_command(command: Sequence[str]) -> None:
    if isinstance(command, str) or not command or not all(isinstance(word, str) for word in command):
        raise ValueError(
            f"command must be a list of words, such as ['tune', 'search.py', '--out', 'runs'], got {command!r}."
        )
    if command[0] not in _COMMANDS and not command[0].endswith(".py"):
        raise ValueError(
            f"command must begin with one of {', '.join(_COMMANDS)}, or with a script whose name ends with .py, got "
            f"{command[0]!r}."
        )
    reserved = [word for word in command if word.partition("=")[0] in {"--run-id", "--resume", "--if-begun"}]
    if command[0] == _RESUMED and reserved:
        raise ValueError(f"command must be without {reserved[0]}, which the operator gives. Name the run with run_id=.")


def _name_of(context: Context) -> str:
    """Name the run of a task instance, alike in all its tries."""
    task = context["ti"]
    parts = [task.dag_id, task.task_id, task.run_id]
    if task.map_index is not None and task.map_index >= 0:
        parts.append(str(task.map_index))
    return run_name(*parts)


def _words(command: Sequence[str], python: str, run: str) -> list[str]:
    """Complete the words of a command."""
    name = command[0]
    if name.endswith(".py"):
        return [python, *command]
    words = [python, "-m", "cerebro_spark", *command]
    if name == _RESUMED:
        words += ["--run-id", run, "--if-begun", "take_over"]
    if name in _WITH_JSON and "--json" not in command:
        words.append("--json")
    return words
