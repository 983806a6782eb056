"""Run notebooks from the first cell to the last, and store their outputs: ``python examples/run_notebooks.py FILE...``.

The kernel is the Python that runs this script. A notebook is written back only if no cell fails.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import nbformat
from ipykernel.kernelspec import write_kernel_spec
from nbclient import NotebookClient

if TYPE_CHECKING:
    from collections.abc import Sequence


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
            # The version of Python that ran it is of no use to readers, and makes every run a difference.
            notebook.metadata["language_info"] = {"name": "python"}
            nbformat.write(notebook, path)
            print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
