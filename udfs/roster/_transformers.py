"""The optional library ``transformers``: imported where it is used, without its progress bars and advice."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["first_line", "quiet", "transformers"]


def transformers() -> Any:
    """Import the library; the message of an ImportError says which extra installs it, and where."""
    try:
        return import_module("transformers")
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise ImportError(
            'transformers is not installed: pip install "cerebro-spark[pretrained]", here and where the Spark workers '
            "run (roster.from_pretrained builds its networks with it)"
        ) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library's log and progress bars while the block runs: errors say what matters."""
    logging = transformers().logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def first_line(error: BaseException) -> str:
    """Cut an error of the library, which may take a page, to its first sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
