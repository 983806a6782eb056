"""Pictures of the documentation from a search over scikit-learn's digits, which a user steers in the browser.

``PICTURES`` is the folder that they are written to, by default the test's own.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pages import button, cell, confirm, open_experiment, wait_for_cell
from PIL import Image
from steering_server import RUNNER_TOKEN

from cerebro_spark import ASHA, GridSearch, ModelTrainer, SparkBackend
from cerebro_spark.steering.runner import Pool
from optimizer.space import log_uniform

if TYPE_CHECKING:
    from browser import Page
    from pyspark.sql import DataFrame, SparkSession
    from steering_server import Server

    from udfs.store import Store

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(os.environ.get("PICTURES", tmp_path))


@pytest.fixture
def digits(spark: SparkSession) -> DataFrame:
    datasets = pytest.importorskip("sklearn.datasets")
    images = datasets.load_digits()
    rows = [((pixels / 16).tolist(), int(label)) for pixels, label in zip(images.data, images.target, strict=True)]
    return spark.createDataFrame(rows, "pixels array<float>, label int")


def test_pictures_of_the_pages(
    page: Page,
    server: Server,
    spark: SparkSession,
    digits: DataFrame,
    store: Store,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch = pytest.importorskip("torch")

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(
            torch.nn.Linear(64, params["hidden"]), torch.nn.ReLU(), torch.nn.Linear(params["hidden"], 10)
        )
        sgd = torch.optim.SGD(net.parameters(), lr=params["lr"])
        loss = torch.nn.CrossEntropyLoss()
        return ModelTrainer(model=net, optimizer=sgd, loss=loss, metrics=["accuracy"], batch_size=8)

    monkeypatch.setenv("CEREBRO_TOKEN", RUNNER_TOKEN)
    shared: dict[str, Any] = {
        "backend": SparkBackend(spark, num_workers=2),
        "store": store,
        "trainer_fn": trainer,
        "feature_columns": ["pixels"],
        "label_columns": ["label"],
        "progress": False,
    }
    space = {"lr": [0.2, 0.05, 0.01, 0.002], "hidden": [16, 64]}
    search = GridSearch(search_space=space, num_epochs=60, **shared)
    experiment = search.start(digits, run_id="digits", server=server.url())
    experiment.trials  # noqa: B018 - waits until the search trains
    open_experiment(page, server.url("experiments/digits"))
    page.wait(f"parseInt({cell('c003', 'Epochs')}) >= 4", seconds=120)
    page.click(button("c007", "stop"))
    confirm(page, "saves about")
    wait_for_cell(page, "c007", "Status", "■ stopped")
    page.click(button("c002", "pause"))
    confirm(page, "pauses")
    wait_for_cell(page, "c002", "Status", "❚❚ paused")
    page.click(button("c003", "clone"))
    page.wait("document.querySelector('dialog .effect p') !== null")
    page.value("scrollTo(0, 0)")
    page.write("0.02")
    page.wait("document.querySelector('dialog .effect').innerText.includes('instead of')")
    page.picture(folder / "steering_clone.png", whole=False)
    confirm(page)
    wait_for_cell(page, "c008", "Parent", "c003")
    page.wait(f"parseInt({cell('c008', 'Epochs')}) >= 3", seconds=120)
    page.value("document.getElementById('notice').textContent = ''")
    page.value("scrollTo(0, 0)")
    page.picture(folder / "steering_experiment.png")
    experiment.end()
    experiment.wait()
    clone = {trial.trial_id: trial for trial in experiment.trials}["c008"]
    assert (clone.params["lr"], clone.params["hidden"]) == (0.02, 64)

    drawn = {"lr": log_uniform(0.001, 0.3), "hidden": [16, 32, 64]}
    ASHA(search_space=drawn, max_epochs=9, max_configurations=18, seed=1, **shared).start(
        digits, run_id="digits-asha", server=server.url()
    ).wait()
    page.visit(server.url("compare?runs=digits,digits-asha"))
    page.wait("document.body.dataset.ready === 'true'")
    page.wait("document.querySelectorAll('#parallel canvas').length > 0")
    page.picture(folder / "steering_comparison.png")
    # A machine without a GPU draws with software, which Chromium warns of.
    page.problems[:] = [problem for problem in page.problems if "WebGL" not in problem]


def test_picture_of_the_page_for_data(
    page: Page, server: Server, spark: SparkSession, store: Store, folder: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """A pool ranks digits of which each 25th has a wrong label, and a user relabels the first ones by keyboard."""
    torch, datasets = pytest.importorskip("torch"), pytest.importorskip("sklearn.datasets")
    pytest.importorskip("cleanlab")
    images = datasets.load_digits()
    rows = []
    for number, (pixels, label) in enumerate(zip(images.images[:600], images.target, strict=False)):
        file = io.BytesIO()
        Image.fromarray((pixels * 15.9).astype("uint8")).convert("RGB").save(file, "PNG")
        rows.append((number, file.getvalue(), int(label + (number % 25 == 0)) % 10))
    table = str(tmp_path / "digits.parquet")
    spark.createDataFrame(rows, "id int, image binary, label int").coalesce(2).write.parquet(table)

    def trainer(params: dict[str, Any]) -> ModelTrainer:
        net = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(576, 10)
        )
        adam = torch.optim.Adam(net.parameters(), lr=params["lr"])
        return ModelTrainer(model=net, optimizer=adam, loss=torch.nn.CrossEntropyLoss(), batch_size=16)

    monkeypatch.setenv("CEREBRO_TOKEN", RUNNER_TOKEN)
    search = GridSearch(
        backend=SparkBackend(spark, num_workers=2),
        store=store,
        trainer_fn=trainer,
        search_space={"lr": [0.003]},
        num_epochs=6,
        feature_columns=["image"],
        label_columns=["label"],
        image_size=8,
        progress=False,
    )
    experiment = search.start(spark.read.parquet(table), run_id="digits", server=server.url())
    experiment.wait()
    pool = Pool(search.backend, store, name="pool")
    pool.searches["digits"] = SimpleNamespace(search=search, experiment=experiment, document={"table": table})
    with pool.serve(server.url()):
        page.visit(server.url("experiments/digits/data"))
        page.wait("document.querySelector('[data-ready]') !== null && document.getElementById('trial').length > 1")
        page.value("document.getElementById('limit').value = '12'")
        page.wait("fetch('/api/v1/pools').then(r => r.json()).then(({ pools }) => pools.length === 1)", seconds=30)
        page.click("#find button[type=submit]")
        page.wait("document.querySelectorAll('#rows tbody tr').length === 12", seconds=240)
    page.value("document.querySelector('#rows tbody tr').focus()")
    decided = "document.querySelectorAll('#corrections tbody tr').length"
    for count, key in enumerate("ssss", 1):
        page.press(key)
        page.wait(f"{decided} === {count}")
    page.value("document.getElementById('notice').textContent = ''")
    page.value("scrollTo(0, 0)")
    page.picture(folder / "data_debugging.png")
