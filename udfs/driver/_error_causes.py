"""The cause of an error that Spark reports: one line out of its stack traces."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["Cause", "cause"]

# The line that begins a Java exception, or ends a Python traceback.
_HEADER = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*([A-Z]\w*(?:Error|Exception|Failure)): +(.*\S)")
# A Java exception that only carries a Python one: its own lines follow.
_CARRIED = "Traceback (most recent call last)"


class Cause(NamedTuple):
    """The innermost exception of an error."""

    kind: str  # name of its class, without the module or package: "StoreError"
    message: str  # the first line of its message

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


def cause(error: BaseException) -> Cause:
    r"""Find what an executor, or Spark itself, raised.

    Spark puts a worker's exception, by any number of Java exceptions around it, into the text of its own error; that
    text is all that the driver gets, on classic Spark and on Connect.

    Returns
    -------
    Cause
        Cause from the last exception in the text; without one, `error` itself up to the end of its first line.
        Without Spark's ``SQLSTATE``.

    Examples
    --------
    >>> text = "\n".join([
    ...     "Job aborted: org.apache.spark.api.python.PythonException: Traceback (most recent call last):",
    ...     '  File "udfs/store.py", line 7, in write',
    ...     "udfs.store.StoreError: /data: no space",
    ...     "    at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:572)",
    ... ])
    >>> cause(RuntimeError(text))
    Cause(kind='StoreError', message='/data: no space')
    >>> cause(ValueError("[PATH_NOT_FOUND] Path does not exist: file:/no. SQLSTATE: 42K03"))
    Cause(kind='ValueError', message='[PATH_NOT_FOUND] Path does not exist: file:/no.')
    """
    text = str(error)
    lines = (line.strip() for line in text.splitlines())
    headers = [header for line in lines if (header := _HEADER.fullmatch(line)) and not header[2].startswith(_CARRIED)]
    if headers:
        kind, message = headers[-1].groups()
    else:
        kind, message = type(error).__name__, text.strip().partition("\n")[0]
    return Cause(kind, message.split(" SQLSTATE", 1)[0])
