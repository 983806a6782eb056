"""Optuna, an optional package, imported where it is used."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["load_optuna", "quiet"]


def load_optuna(asked: str) -> Any:
    """Import Optuna.

    Parameters
    ----------
    asked : str
        What the user gave that needs it, as ``"sampler='tpe'"``.

    Raises
    ------
    InvalidArgumentError
        It is not installed.
    """
    try:
        import optuna  # an optional package
    except ImportError as error:
        raise InvalidArgumentError(f"{asked} needs Optuna: pip install 'cerebro-spark[optuna]'") from error
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Keep Optuna from reporting every study that is made."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
