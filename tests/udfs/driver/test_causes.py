"""The innermost exception is found in the texts that Spark makes of it."""

from __future__ import annotations

import pytest

from udfs.driver import Cause, cause

PYTHON = """Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times, most recent failure: \
Lost task 0.0 in stage 3.0 (TID 9) (host executor driver): \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/worker.py", line 10, in process
    raise StoreError(path)
udfs.store.StoreError: /data/x: a file lies where a folder has to be

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:572)
\t... 1 more

Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:2995)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
udfs.store.StoreError: /data/x: a file lies where a folder has to be

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.read(PythonRunner.scala:572)"""

JAVA = """An error occurred while calling o42.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times
Driver stacktrace:
\tat org.apache.spark.scheduler.DAGScheduler.failJob(DAGScheduler.scala:2995)
Caused by: java.io.IOException: No space left on device
\tat java.base/sun.nio.ch.FileDispatcherImpl.write0(Native Method)
\t... 23 more"""

LOST = """Job aborted due to stage failure: Task 0 in stage 8.0 failed 1 times, most recent failure: Lost task 0.0 in \
stage 8.0 (TID 8): ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: worker lost
Driver stacktrace:"""

PATH = """[PATH_NOT_FOUND] Path does not exist: file:/no.parquet. SQLSTATE: 42K03

JVM stacktrace:
org.apache.spark.sql.AnalysisException
\tat org.apache.spark.sql.errors.QueryCompilationErrors$.dataPathNotExistError(QueryCompilationErrors.scala:1)"""


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (PYTHON, "StoreError", "/data/x: a file lies where a folder has to be"),
        (JAVA, "IOException", "No space left on device"),
        (LOST, "RuntimeError", LOST.splitlines()[0]),
        (PATH, "RuntimeError", "[PATH_NOT_FOUND] Path does not exist: file:/no.parquet."),
        ("", "RuntimeError", ""),
    ],
    ids=["python", "java", "executor", "analysis", "empty"],
)
def test_the_innermost_exception(text: str, kind: str, message: str) -> None:
    found = cause(RuntimeError(text))
    assert found == Cause(kind, message)
    assert str(found) == f"{kind}: {message}"
