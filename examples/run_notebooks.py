"""Run notebooks from the first cell to the last, and store their outputs: ``python examples/run_notebooks.py FILE...``.

The kernel is the Python that runs this script. A notebook is written back only if no cell fails.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Sequence


# A larger picture holds photographs, which JPEG keeps in a tenth of the bytes.
_PICTURE_BYTES = 150_000
_QUALITY = 85

_CHECKOUT = Path(__file__).resolve().parents[1]


def store(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook that was run, with small pictures and without what Spark says as it starts.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    path : Path
    """
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        sys.stderr.writelines(output.text for output in cell.outputs if output.get("name") == "stderr")
        cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
        for output in cell.outputs:
            if "text" in output:  # tracebacks name files by their place on this machine
                output.text = output.text.replace(f"{_CHECKOUT}{os.sep}", "")
            picture = output.get("data", {}).get("image/png", "")
            if len(picture) > _PICTURE_BYTES:
                output.data["image/jpeg"] = _as_jpeg(picture)
                del output.data["image/png"]
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


def _as_jpeg(picture: str) -> str:
    buffer = io.BytesIO()
    with Image.open(io.BytesIO(base64.b64decode(picture))) as opened:
        opened.convert("RGB").save(buffer, "JPEG", quality=_QUALITY)
    return base64.b64encode(buffer.getvalue()).decode()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", type=Path, nargs="+")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a cell")
    options = parser.parse_args(arguments)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with tempfile.TemporaryDirectory() as folder:
        write_kernel_spec(Path(folder, "kernels", "python3"))
        os.environ["JUPYTER_PATH"] = folder
        for path in options.notebooks:
            notebook = nbformat.read(path, as_version=4)
            place = {"metadata": {"path": str(path.resolve().parent)}}
            NotebookClient(notebook, timeout=options.timeout, resources=place, record_timing=False).execute()
            store(notebook, path)
            print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
