"""Every notebook runs from the first cell to the last, and says what its text says."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
pytest.importorskip("ipykernel")


@pytest.fixture(autouse=True)
def _kernel_of_this_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The notebook's kernel is this Python, whatever kernels the machine has."""
    from ipykernel.kernelspec import write_kernel_spec  # noqa: PLC0415

    write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


def _text(notebook: nbformat.NotebookNode) -> str:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return "\n".join(output.get("text", "") + str(output.get("data", {}).get("text/plain", "")) for output in outputs)


@pytest.mark.filterwarnings("default")
def test_feature_transfer() -> None:
    notebook = nbformat.read(ROOT / "notebooks" / "feature_transfer.ipynb", as_version=4)
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    text = _text(notebook)
    assert "staged plan for mobilenet_v2" in text
    assert "structured + pool" in text
    assert "best layer: " in text
    pictures = [
        output
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert len(pictures) == 1
    assert "not a JPEG" in text
