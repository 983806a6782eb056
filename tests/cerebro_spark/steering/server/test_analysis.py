"""Routes that analyse an experiment, and the notebook that a user downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from steered_runs import FakeRunner, epoch, order, start, unit

from cerebro_spark.steering.server._notebook import notebook

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.testclient import TestClient

RUN = "/api/v1/experiments/r1"


@pytest.fixture
def client(clients: Callable[[str, Any], TestClient]) -> TestClient:
    """Make a client of a server with a run of eight configurations, of which the fifth is the best."""
    runner = FakeRunner(clients("cluster", "runner"))
    runner.register()
    params = {f"c{place:03}": {"lr": 10.0 ** -(place % 4 + 1), "act": "ab"[place // 4]} for place in range(8)}
    runner.report("orders", order(decisions=[start(trial, params=each) for trial, each in params.items()]))
    for place, trial in enumerate(params):
        runner.report("units", [unit(trial, 0)])
        runner.report("orders", order([epoch(trial, 1, abs(place - 4) + 0.5)]))
    return clients("ada", "viewer")


def test_a_viewer_reads_the_narrowed_space(client: TestClient) -> None:
    narrowed = client.get(f"{RUN}/narrowed?best=2").json()
    assert narrowed["trials"] == ["c004", "c003"]
    assert narrowed["search_space"]["lr"] == {"kind": "loguniform", "low": 0.0001, "high": 0.1}
    assert narrowed["search_space"]["act"] == {"kind": "choice", "values": ["b", "a"]}
    assert client.get(f"{RUN}/narrowed?best=0").status_code == 422
    assert client.get("/api/v1/experiments/r2/narrowed").status_code == 404


def test_a_viewer_reads_importance_and_improvements(client: TestClient) -> None:
    assert list(client.get(f"{RUN}/importance").json()["importance"]) == ["act", "lr"]
    best = client.get(f"{RUN}/best").json()
    assert (best["metric"], best["mode"]) == ("loss", "min")
    assert [(step["epochs"], step["trial"]) for step in best["steps"]] == [
        (1, "c000"), (2, "c001"), (3, "c002"), (4, "c003"), (5, "c004"), (8, "c004"),
    ]  # fmt: skip
    assert best["steps"][0]["seconds"] == 2.0


def test_the_notebook_is_valid_and_quotes_names(client: TestClient) -> None:
    nbformat = pytest.importorskip("nbformat")
    reply = client.get(f"{RUN}/notebook")
    assert reply.headers["content-disposition"] == "attachment; filename*=UTF-8''r1.ipynb"
    nbformat.validate(nbformat.reads(reply.text, as_version=4))
    hostile = notebook("x'); import os #\n# <script>", "file:///a'b", "loss", "min")
    nbformat.validate(nbformat.from_dict(hostile))
    for cell in hostile["cells"][1:]:
        compile(cell["source"], "cell", "exec")
    assert "    x'); import os # # <script>\n" in hostile["cells"][0]["source"]
    assert "import os" not in {line.strip() for line in hostile["cells"][1]["source"].splitlines()}


def test_a_viewer_reads_the_builtin_models(client: TestClient) -> None:
    models = {model["name"]: model for model in client.get("/api/v1/models").json()["models"]}
    assert models["resnet50"]["title"] == "ResNet50"
    assert set(models["resnet50"]["search_space"]) == set(models["resnet50"]["trainings"])
