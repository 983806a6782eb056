"""``vista transfer`` by ``spark-submit``: the nodes have the third-party packages, ours come with the job."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from standalone import StandaloneCluster
    from transfers import Transfer


def test_the_nodes_do_not_have_this_project(node_python: Path, tmp_path: Path) -> None:
    for package in ("vista_spark", "cerebro_spark", "udfs", "optimizer"):
        done = subprocess.run(
            [node_python, "-c", f"import pyspark, {package}"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert f"No module named '{package}'" in done.stderr


def test_transfer_on_two_workers_gives_what_it_gives_locally(
    cluster: StandaloneCluster, transfer: Transfer, expected: Path, spark: SparkSession, tmp_path: Path
) -> None:
    packed = subprocess.run(
        [sys.executable, "-m", "vista_spark", "package", "--out", str(tmp_path / "dist")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    (archive,) = (tmp_path / "dist").glob("*.zip")
    script = tmp_path / "dist" / "vista.py"
    assert f"--py-files {archive} {script}" in packed.stdout
    # The driver too is the nodes' Python: these packages come from the archive, or from nowhere.
    done = cluster.submit(script, *transfer.command(tmp_path / "out"), py_files=[archive])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " plan for squeezenet1_1: " in done.stdout
    transfer.assert_same(tmp_path / "out", expected, spark)
    used = {path.parents[1].name for path in cluster.folder.glob("worker-*/work/app-*/*/stderr")}
    assert used, "no executor ran"
