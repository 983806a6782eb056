"""Import of the optional package Optuna."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["load_optuna", "quiet"]


def load_optuna(asked: str) -> Any:
    """Import Optuna for an argument of the user such as ``"sampler='tpe'"``, which the error message names.

    Raises
    ------
    InvalidArgumentError
        Optuna is not installed.
    """
    try:
        import optuna  # an optional package
    except ImportError as error:
        raise InvalidArgumentError(f"{asked} needs Optuna: pip install 'cerebro-spark[optuna]'") from error
    return optuna


@contextmanager
def quiet(optuna: Any) -> Iterator[None]:
    """Suppress Optuna's log line for every new study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
