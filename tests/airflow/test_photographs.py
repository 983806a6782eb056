"""The examples' DAGs of photographs, run by Airflow: ``spark-submit`` to a cluster, and TaskFlow over Spark Connect."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from places import ROOT
from real_inputs import squeezenet_state_dict
from sessions import CONNECT
from standalone import SparkConnectServer
from transfers import write_inputs

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.skipif(not (ROOT / ".venv-airflow").exists(), reason="make airflow-test builds .venv-airflow"),
    pytest.mark.skipif(CONNECT, reason="starts its own servers"),
    pytest.mark.timeout(1800),
]


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the photographs, table and weights that the examples name."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("photographs") / "data"
    write_inputs(folder)
    table = pd.read_csv(folder / "table.csv").rename(columns={"key": "id", "kind": "label"})
    table.to_csv(folder / "table.csv", index=False)
    torch.save(squeezenet_state_dict(), folder / "weights.pt")
    return folder


def test_a_transfer_is_submitted(start_airflow: Callable[[], Any], photographs: Path) -> None:
    airflow = start_airflow()
    package = airflow.folder / "dist"
    subprocess.run([sys.executable, "-m", "vista_spark", "package", "--out", str(package)], cwd=photographs, check=True)
    airflow.add_example(
        "photographs_transfer",
        CEREBRO_PACKAGE=str(package),
        CEREBRO_DATA=str(photographs),
        AIRFLOW_CONN_SPARK_DEFAULT=airflow.cluster.url,
    )
    airflow.finish(airflow.start("photographs_transfer"))
    (out,) = (photographs / "transfers").iterdir()
    assert len(pd.read_csv(out / "layers.csv")) == 4
    assert (out / "best_model").is_dir()


def test_uncertain_photographs_are_explained(start_airflow: Callable[[], Any], photographs: Path) -> None:
    airflow = start_airflow()
    with SparkConnectServer(airflow.folder / "connect", "local[2]", Path(sys.executable)) as server:
        airflow.add_example("photographs_explained", CEREBRO_DATA=str(photographs), SPARK_REMOTE=server.url)
        airflow.finish(airflow.start("photographs_explained"))
    (out,) = (photographs / "explained").iterdir()
    maps = pd.read_parquet(out / "heat_maps")
    assert len(maps) == 5
    assert maps["heat_map"].notna().all()
    assert set(maps["path"]) == set(pd.read_parquet(out / "uncertain")["path"])
