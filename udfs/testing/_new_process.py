"""Saved stages in a new process: what only the first one knew is missing there."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["transform_in_new_process"]

_SECONDS = 300
_CODE = """
import json, sys
rows, outputs, preparation = json.loads(sys.argv[1])
exec(preparation)
from pyspark.ml.util import DefaultParamsReader
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
df = spark.read.parquet(rows)
for saved, output in outputs.items():
    DefaultParamsReader.loadParamsInstance(saved, spark).transform(df).write.parquet(output)
spark.stop()
"""


def transform_in_new_process(rows: Path, outputs: Mapping[Path, Path], preparation: str = "") -> None:
    """Load saved stages in a new Python process, and write what each makes of the same rows.

    Parameters
    ----------
    rows : Path
        Parquet.
    outputs : mapping of Path to Path
        For each saved stage, model or pipeline the folder where its rows go, as Parquet.
    preparation : str
        Python that runs first. It may open a Spark session; otherwise the process takes Spark's default.

    Raises
    ------
    AssertionError
        The process failed; the message is the end of what it wrote.
    """
    task = json.dumps([str(rows), {str(saved): str(output) for saved, output in outputs.items()}, preparation])
    done = subprocess.run(  # noqa: S603 - this Python, and code of the tests
        [sys.executable, "-c", _CODE, task], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise AssertionError(f"a new process could not load {', '.join(map(str, outputs))}: {done.stderr[-3000:]}")
