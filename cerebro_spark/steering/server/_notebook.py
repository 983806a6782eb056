"""Notebook that reads the record of a run from its store."""

from __future__ import annotations

from typing import Any

__all__ = ["notebook"]

_IMPORTS = """\
import json

import matplotlib.pyplot as plt

from cerebro_spark import Store
from cerebro_spark.tune import run_tables

run = {run!r}
store = {store!r}
metric, larger_is_better = {metric!r}, {larger!r}
tables = run_tables(Store.from_uri(store), run)
curves = tables["metrics"][tables["metrics"]["name"] == metric]"""

_BEST = """\
best = curves.groupby("trial_id")["value"].agg("max" if larger_is_better else "min").rename(f"best {metric}")
params = tables["params"].assign(value=tables["params"]["value"].map(json.loads))
params = params.pivot(index="trial_id", columns="name", values="value")
params.join(best).sort_values(best.name, ascending=not larger_is_better)"""

_CURVES = """\
figure, axes = plt.subplots(figsize=(9, 5))
for trial, curve in curves.groupby("trial_id"):
    axes.plot(curve["epoch"] + 1, curve["value"], label=trial)
axes.set(xlabel="epoch", ylabel=metric)
if len(axes.lines) <= 20:
    axes.legend()"""

_UNITS = """\
units = tables["units"]
units.groupby(["worker", "kind"])["seconds"].agg(["count", "sum"])"""


def notebook(run: str, store: str, metric: str, mode: str) -> dict[str, Any]:
    """Return the document of a notebook (format 4.5) that lists the configurations of a run and plots its curves.

    Parameters
    ----------
    run : str
        Name of the run.
    store : str
        URI of the store, as the runner sees it.
    metric : str
        Metric that decides.
    mode : {"min", "max"}
        Direction in which the metric improves.

    Returns
    -------
    dict
        Document, as plain data.

    Examples
    --------
    >>> document = notebook("adult", "file:///data/cerebro", "val_accuracy", "max")
    >>> [cell["cell_type"] for cell in document["cells"]]
    ['markdown', 'code', 'code', 'code', 'code']
    """
    names = {"run": run, "store": store, "metric": metric, "larger": mode == "max"}
    # A name in a heading is code, so that it is neither Markdown nor HTML.
    title = f"# Experiment\n\n    {' '.join(run.split())}\n\nExecute the cells on a machine that can read the store."
    sources = [_IMPORTS.format(**names), _BEST, _CURVES, _UNITS]
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "id": "title", "metadata": {}, "source": title}]
    for number, source in enumerate(sources):
        cell = {"cell_type": "code", "id": f"cell-{number}", "metadata": {}, "source": source}
        cells.append({**cell, "execution_count": None, "outputs": []})
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
