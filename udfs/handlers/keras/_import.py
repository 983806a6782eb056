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

__all__ = ["KerasBackendError", "load_keras"]

BACKEND = "tensorflow"

# What TensorFlow's C++ writes on import before it reads TF_CPP_MIN_LOG_LEVEL.
_NOISE = re.compile(
    rb"All log messages before absl::InitializeLog|oneDNN custom operations are on|^[IW]\d{4} \d\d:\d\d:"
)


class KerasBackendError(CerebroError, ImportError):
    """Keras was imported on another backend than TensorFlow, and a process has one backend for its life."""


def load_keras() -> None:
    """Import Keras and TensorFlow; only a backend that somebody chose before can go against it.

    Environment variables are set where they are not set already: ``KERAS_BACKEND``, ``TF_CPP_MIN_LOG_LEVEL``, and
    ``TF_NUM_INTRAOP_THREADS`` from the ``OMP_NUM_THREADS`` that Spark sets for its Python workers: TensorFlow takes its
    number of threads once, when the first operation runs.

    Raises
    ------
    KerasBackendError
        Keras is on another backend; the message says how to change that.
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
        found = str(keras.backend.backend())
    else:
        found = os.environ["KERAS_BACKEND"]
    if found != BACKEND:
        raise KerasBackendError(
            f"Keras runs on its {found!r} backend in this process; models are run on {BACKEND!r}. Set the environment "
            f"variable KERAS_BACKEND={BACKEND} before Keras is first imported (workers: "
            f"spark.executorEnv.KERAS_BACKEND={BACKEND}), or trace a torch.nn.Module with the torch handler"
        )


@contextlib.contextmanager
def _without_noise() -> Iterator[None]:
    """Hold back the process's standard error, and let go of it what is not TensorFlow's greeting."""
    if "tensorflow" in sys.modules:
        yield
        return
    try:
        real = os.dup(2)
    except OSError:  # a process without standard error
        yield
        return
    with tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(real, 2)
            os.close(real)
            held.seek(0)
            kept = [line for line in held if not _NOISE.search(line)]
            if kept:
                os.write(2, b"".join(kept))
