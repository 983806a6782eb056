"""MLflow's files in a folder of the user's, where there is no tracking server."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["track_into"]


def track_into(folder: Path, experiment: str) -> None:
    """Keep MLflow's runs and files in a folder, unless ``MLFLOW_TRACKING_URI`` names a server.

    Parameters
    ----------
    folder : Path
        Gets ``mlflow.db`` and ``mlruns``.
    experiment : str
        Created where it does not exist.
    """
    import mlflow  # takes a second that `--help` should not cost

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # not every migration of a new SQLite file
    if "MLFLOW_TRACKING_URI" not in os.environ:
        mlflow.set_tracking_uri(f"sqlite:///{(folder / 'mlflow.db').resolve()}")
        if mlflow.get_experiment_by_name(experiment) is None:
            mlflow.create_experiment(experiment, artifact_location=(folder / "mlruns").resolve().as_uri())
