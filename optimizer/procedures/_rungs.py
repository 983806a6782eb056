"""Integer arithmetic of rungs, since ``math.log(243, 3)`` is below 5."""

from __future__ import annotations

from optimizer.arguments import whole
from optimizer.errors import InvalidArgumentError

__all__ = ["bracket_rungs", "check_rungs", "rung_epochs", "whole_log"]


def whole_log(number: int, base: int) -> int:
    """Find the largest exponent whose power of ``base`` is at most ``number``.

    Parameters
    ----------
    number : int
        At least 1.
    base : int
        At least 2.

    Examples
    --------
    >>> whole_log(243, 3)
    5
    """
    exponent, power = 0, base
    while power <= number:
        exponent, power = exponent + 1, power * base
    return exponent


def check_rungs(max_epochs: int, eta: int, min_epochs: int = 1) -> None:
    """Validate the epochs of rungs and the factor between them.

    Raises
    ------
    InvalidArgumentError
        A value is not an integer or too small, or ``min_epochs`` is larger than ``max_epochs``.
    """
    whole("max_epochs", max_epochs, 1, "It is the number of epochs of the best configurations (R).")
    whole("eta", eta, 2, "One of eta configurations goes on.")
    whole("min_epochs", min_epochs, 1, "It is the number of epochs of the first rung (r).")
    if min_epochs > max_epochs:
        raise InvalidArgumentError(f"min_epochs must be at most max_epochs={max_epochs}, got {min_epochs}")


def rung_epochs(max_epochs: int, eta: int, top: int) -> tuple[int, ...]:
    """List the epochs that a configuration has reached at each rung: ``floor(R eta^(i - top))``.

    Parameters
    ----------
    top : int
        Number of the last rung.

    Examples
    --------
    >>> rung_epochs(25, 3, 2)
    (2, 8, 25)
    """
    return tuple(max_epochs // eta ** (top - rung) for rung in range(top + 1))


def bracket_rungs(max_epochs: int, eta: int, bracket: int) -> tuple[tuple[int, int], ...]:
    """List the rungs of a Hyperband bracket as pairs of configurations and epochs reached.

    Parameters
    ----------
    bracket : int
        Number of the bracket's last rung, ``s``.

    Examples
    --------
    >>> bracket_rungs(81, 3, 2)
    ((15, 9), (5, 27), (1, 81))
    """
    count = -(-(whole_log(max_epochs, eta) + 1) * eta**bracket // (bracket + 1))
    return tuple((count // eta**rung, reaches) for rung, reaches in enumerate(rung_epochs(max_epochs, eta, bracket)))
