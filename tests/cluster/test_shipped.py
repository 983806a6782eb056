"""A driver's own Python, and weights that only the driver has: both reach the nodes, on the cluster and by Connect."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from standalone import SparkConnectServer, spark_environment

from vista_spark import CNNFeaturizer, roster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from standalone import StandaloneCluster
    from transfers import Transfer

PROGRAM = Path(__file__).with_name("moved_weights.py")


@pytest.fixture(scope="module")
def connect_server(
    cluster: StandaloneCluster, node_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkConnectServer]:
    """In front of the cluster, all of whose cores it takes."""
    with SparkConnectServer(tmp_path_factory.mktemp("connect"), cluster.url, node_python) as running:
        yield running


@pytest.fixture(scope="module")
def twins(transfer: Transfer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files of weights with one name."""
    import torch  # an optional extra

    folder = tmp_path_factory.mktemp("twins")
    (folder / "a").mkdir()
    (folder / "b").mkdir()
    shutil.copy(transfer.weights, folder / "a" / "w.pt")
    torch.save(roster.load("squeezenet1_1", seed=5).state_dict(), folder / "b" / "w.pt")
    return folder / "a" / "w.pt", folder / "b" / "w.pt"


@pytest.fixture(scope="module")
def features(transfer: Transfer, twins: tuple[Path, Path], spark: SparkSession) -> list[np.ndarray]:
    """Return the result of both files on this machine."""
    rows = [(number, path.read_bytes()) for number, path in enumerate(sorted(transfer.images.iterdir()))]
    df = spark.createDataFrame(rows, "id long, image binary")
    common = {"model": "squeezenet1_1", "layers": "pool10", "imageSize": 64, "outputFormat": "array"}
    found = []
    for weights in twins:
        stage = CNNFeaturizer(**common, weights=str(weights), outputCols=["f"], errors="raise")
        found.append(np.array([row.f for row in stage.transform(df).orderBy("id").collect()]))
    assert np.abs(found[0] - found[1]).max() > 0.1, "the files are told apart by what they give"
    return found


def _run(node_python: Path, *command: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=spark_environment(cwd, node_python),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _weights_travel(
    master: str,
    node_python: Path,
    transfer: Transfer,
    twins: tuple[Path, Path],
    features: list[np.ndarray],
    folder: Path,
) -> None:
    copies = [folder / name / "w.pt" for name in ("a", "b")]
    for original, copy in zip(twins, copies, strict=True):
        copy.parent.mkdir()
        shutil.copy(original, copy)
    paths = (transfer.images, *copies, folder / "features.npz")
    _run(node_python, str(PROGRAM), master, *map(str, paths), cwd=folder)
    with np.load(folder / "features.npz") as found:
        for name, expected in zip(("first", "second"), features, strict=True):
            np.testing.assert_allclose(found[name], expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_packages_and_weights_reach_the_workers_of_a_cluster(
    cluster: StandaloneCluster,
    node_python: Path,
    transfer: Transfer,
    twins: tuple[Path, Path],
    features: list[np.ndarray],
    tmp_path: Path,
) -> None:
    _weights_travel(cluster.url, node_python, transfer, twins, features, tmp_path)


def test_packages_and_weights_reach_the_workers_behind_connect(
    connect_server: SparkConnectServer,
    node_python: Path,
    transfer: Transfer,
    twins: tuple[Path, Path],
    features: list[np.ndarray],
    tmp_path: Path,
) -> None:
    _weights_travel(connect_server.url, node_python, transfer, twins, features, tmp_path)


def test_transfer_through_a_connect_server_gives_what_it_gives_locally(
    connect_server: SparkConnectServer,
    node_python: Path,
    transfer: Transfer,
    expected: Path,
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    command = transfer.command(tmp_path / "out")
    _run(node_python, "-m", "vista_spark", *command, "--master", connect_server.url, "--ship", cwd=tmp_path)
    transfer.assert_same(tmp_path / "out", expected, spark)
