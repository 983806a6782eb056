"""MLflow's tracking server, or its files in a folder of the user's where there is none."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["TrackingError", "check_tracking", "track_into"]

# MLflow's client tries again for minutes without a word.
_PATIENCE_S = 10.0


class TrackingError(CerebroError, OSError):
    """The tracking server of MLflow does not answer."""


def check_tracking(experiment: str | None) -> None:
    """Check that MLflow's tracking server answers, before work begins whose results go there.

    Parameters
    ----------
    experiment : str or None
        Experiment of the results, for the error; None is MLflow's active one.

    Raises
    ------
    TrackingError
        A server by HTTP does not answer within 10 seconds. Any answer is enough, an error too.
    """
    import mlflow  # takes a second that only tracking should cost

    uri = mlflow.get_tracking_uri()
    if not uri.startswith(("http://", "https://")):
        return
    # A name server may take longer than a socket's own limit.
    answers: list[str] = []
    asking = threading.Thread(target=lambda: answers.append(_silence(uri)), daemon=True)
    asking.start()
    asking.join(_PATIENCE_S)
    why = answers[0] if answers else f"no answer within {_PATIENCE_S:.0f} s"
    if why:
        raise TrackingError(
            f"MLflow at {uri} does not answer (experiment={experiment!r}): {why}. Start the server or set "
            "MLFLOW_TRACKING_URI to another one; to continue without tracking, leave out experiment= (and autolog())."
        )


def _silence(uri: str) -> str:
    """Return why a server does not answer; an empty text if it does."""
    try:
        with urlopen(Request(f"{uri.rstrip('/')}/health"), timeout=_PATIENCE_S):  # noqa: S310 - http and https alone
            return ""
    except HTTPError:
        return ""
    except URLError as error:
        # MLflow has settings of its own for certificates.
        return "" if isinstance(error.reason, ssl.SSLError) else str(error.reason)
    except OSError as error:
        return str(error) or type(error).__name__


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
