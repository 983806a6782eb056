"""Importing Keras on TensorFlow: quietly, on the right backend, with the threads that Spark gave this process."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from importlib import import_module
from typing import TYPE_CHECKING

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KerasBackendError", "import_keras", "load_keras"]

BACKEND = "tensorflow"

# What TensorFlow's C++ writes on import before it reads TF_CPP_MIN_LOG_LEVEL.
_NOISE = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|^[IW]\d{4} \d\d:\d\d:"
)


class KerasBackendError(CerebroError, ImportError):
    """Keras was imported on another backend than TensorFlow, and a process has one backend for its life."""


def import_keras() -> str:
    """Import Keras quietly, on TensorFlow unless another backend was chosen before, and name the backend.

    Where another backend is chosen, nothing is imported. Environment variables are set where they are not set already:
    ``KERAS_BACKEND``, ``TF_CPP_MIN_LOG_LEVEL``, and ``TF_NUM_INTRAOP_THREADS`` from the ``OMP_NUM_THREADS`` that Spark
    sets for its Python workers: TensorFlow takes its number of threads once, when the first operation runs.

    Raises
    ------
    ImportError
        Keras or TensorFlow is not installed.
    """
    os.environ.setdefault("KERAS_BACKEND", BACKEND)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if os.environ.get("OMP_NUM_THREADS", "").isdigit():
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", os.environ["OMP_NUM_THREADS"])
    if "keras" in sys.modules or os.environ["KERAS_BACKEND"] == BACKEND:
        with _without_noise():
            keras = import_module("keras")
        return str(keras.backend.backend())
    return os.environ["KERAS_BACKEND"]


def load_keras() -> None:
    """Import Keras and TensorFlow, as :func:`import_keras` does; KerasBackendError if Keras is on another backend."""
    backend = import_keras()
    if backend != BACKEND:
        raise KerasBackendError(
            f"Keras runs on its {backend!r} backend in this process; models are run on {BACKEND!r}. Set the "
            f"environment variable KERAS_BACKEND={BACKEND} before Keras is first imported (workers: "
            f"spark.executorEnv.KERAS_BACKEND={BACKEND}), or take a torch.nn.Module"
        )


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """Redirect standard error of the process, and pass on all but TensorFlow's greeting."""
    if "tensorflow" in sys.modules:
        yield
        return
    try:
        real = os.dup(2)
    except OSError:  # a process without standard error
        yield
        return
    with tempfile.TemporaryFile() as captured:
        sys.stderr.flush()
        os.dup2(captured.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real, 2)
            os.close(real)
            captured.seek(0)
            kept = [line for line in captured if not _NOISE.search(line)]
            if kept:
                os.write(2, b"".join(kept))
