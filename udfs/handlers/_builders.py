"""Calls of a user's function that builds a network."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from udfs.handlers._protocol import UntraceableModelError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["building", "keeps_skeleton", "not_a_network"]


@contextmanager
def building(builder: Any) -> Iterator[None]:
    """Turn what a user's builder raises, but for errors of this project, into an UntraceableModelError."""
    try:
        yield
    except CerebroError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise UntraceableModelError(
            f"the builder {_name(builder)} raised {type(error).__name__}{': ' if reason else ''}{reason}; it has to "
            "return the network when it is called without arguments, here and on the workers"
        ) from error


def not_a_network(builder: Any, returned: object, wanted: str) -> UntraceableModelError:
    """Make the error of a builder that returned anything but a network."""
    return UntraceableModelError(
        f"the builder {_name(builder)} returned {type(returned).__name__}: it has to return a {wanted}"
    )


def keeps_skeleton(builder: Any) -> UntraceableModelError:
    """Make the error of a builder that returns tensors without values, which it kept from an earlier call."""
    return UntraceableModelError(
        f"the builder {_name(builder)} must build all parts of the network in each call, got tensors that an earlier "
        'call under torch.device("meta") left in a cache. Take the cache away from the function that builds them'
    )


def _name(builder: Any) -> str:
    return str(getattr(builder, "__qualname__", type(builder).__qualname__))
