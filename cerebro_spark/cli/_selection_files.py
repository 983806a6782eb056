"""Files of a search: its trials as a table, pictures, the plan, and the best model."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.table import Table as RichTable

from udfs.cli import print_json, print_table

if TYPE_CHECKING:
    from cerebro_spark.tune import Selection

__all__ = ["write_selection"]


def write_selection(selection: Selection, out: Path, *, as_json: bool = False) -> None:
    """Write the files of a selection, and print its trials, the best first.

    The files are ``trials.csv``, ``gantt.png``, ``learning_curves.png``, ``run.txt`` and ``best_model``. ``as_json``
    prints one JSON object on stdout, and all else on stderr. Without a finished configuration, write all but the model
    and raise NoModelError.
    """
    selection.to_pandas().to_csv(out / "trials.csv", index=False)
    selection.gantt().savefig(out / "gantt.png", dpi=120)
    selection.plot().savefig(out / "learning_curves.png", dpi=120)
    (out / "run.txt").write_text(selection.explain() + "\n")
    table = RichTable("", "params", "status", *(each.metric for each in selection.spec.objectives))
    for trial in selection.trials:
        params = ", ".join(f"{name}={value}" for name, value in trial.params.items() if not name.startswith("_"))
        table.add_row(trial.trial_id, params, trial.status, *(f"{value:.4f}" for value in trial.scores.values()))
    print_table(table, Console(stderr=as_json), wrapped=True)
    typer.echo(selection.explain(), err=as_json)
    selection.best_model.write().overwrite().save(str((out / "best_model").resolve()))
    if as_json:
        print_json(_facts(selection, out))
        return
    typer.echo(f"best: {selection.best.trial_id}; files in {out}; run {selection.run_id}")


def _facts(selection: Selection, out: Path) -> dict[str, Any]:
    """Return the facts of a search for ``--json``; a score that is not a number is null."""
    trials = [
        {
            "trial_id": trial.trial_id,
            "status": trial.status,
            "params": {name: _plain(value) for name, value in trial.params.items()},
            "scores": {name: _plain(value) for name, value in trial.scores.items()},
        }
        for trial in selection.trials
    ]
    return {"run_id": selection.run_id, "best": selection.best.trial_id, "trials": trials, "out": str(out)}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (str, int)) or value is None else str(value)
