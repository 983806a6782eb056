"""Spark settings that let workers of a local session start from a process that has imported torch."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from typing import TYPE_CHECKING

from udfs.driver._plugin import default_conf
from udfs.preloading import DAEMON_MODULE

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["preloading_conf"]

_LOG = logging.getLogger(__name__)
_NAME = "spark.python.daemon.module"
_PYTHON = "spark.pyspark.python"
# A folder named udfs in the working directory hides ours, and has no check_packages.
_PROBE = (
    "import sys, udfs; from importlib.util import find_spec; sys.exit(not hasattr(udfs, 'check_packages') or "
    f"not all(map(find_spec, ['torch', 'pyspark.daemon', {DAEMON_MODULE!r}])))"
)


def preloading_conf(master: str | None, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the setting that imports torch before workers are forked, for a local Spark that is about to start.

    Executors of a cluster may lack this package, and Spark would not start a worker there, so only a local session has
    the setting. It needs Linux, and a Python of the workers that finds torch and this package.

    Parameters
    ----------
    master : str or None
        Master of the session.
    conf : mapping of str to str
        Settings of the session. A daemon module that they or ``spark-defaults.conf`` name stays.

    Returns
    -------
    dict of str to str
        ``spark.python.daemon.module``, or nothing.

    Examples
    --------
    >>> preloading_conf("spark://host:7077", {})
    {}
    """
    settings = default_conf() | dict(conf)
    is_local = (master or "").partition("[")[0] == "local"
    if not is_local or not sys.platform.startswith("linux") or _NAME in settings:
        return {}
    if settings.get("spark.python.use.daemon", "true").lower() == "false":
        return {}
    python = settings.get(_PYTHON) or os.environ.get("PYSPARK_PYTHON") or sys.executable
    command = [python, "-c", _PROBE]
    try:
        probe = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603 - Spark runs it too
    except (OSError, subprocess.TimeoutExpired) as error:
        _LOG.info("workers import torch themselves: %s does not run (%s)", python, error)
        return {}
    if probe.returncode:
        _LOG.info("workers import torch themselves: %s does not find torch or cerebro-spark", python)
        return {}
    return {_NAME: DAEMON_MODULE}
