"""The frameworks that this process knows: those that ship, those of installed packages, those of a test or notebook."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError, nearest

if TYPE_CHECKING:
    from udfs.handlers._framework import Framework

__all__ = [
    "ENTRY_POINTS",
    "framework",
    "framework_of",
    "frameworks",
    "imported_frameworks",
    "register_framework",
    "registered_frameworks",
    "unregister_framework",
]

ENTRY_POINTS = "cerebro_spark.frameworks"
"""The entry point group in which a package declares a framework: ``name = "module:OBJECT [extra]"``."""

# Also in pyproject.toml. Sources and a zip that was shipped to workers have no metadata of installed packages.
_SHIPPED = (
    EntryPoint("torch", "udfs.handlers.torch:FRAMEWORK [torch]", ENTRY_POINTS),
    EntryPoint("keras", "udfs.handlers.keras:FRAMEWORK [tensorflow]", ENTRY_POINTS),
)

_registered: dict[str, Framework] = {}


def frameworks() -> tuple[str, ...]:
    """Name the frameworks, whether they are installed or not.

    Examples
    --------
    >>> frameworks()[:2]
    ('torch', 'keras')
    """
    return tuple({**_declared(), **_registered})


def framework(name: str) -> Framework:
    """Find a framework, and import it.

    ``name`` is one of :func:`frameworks`, else it is an InvalidArgumentError; the message of an ImportError names the
    extra that installs the framework.

    Examples
    --------
    >>> framework("torch").suffix
    '.pt2'
    """
    if name in _registered:
        return _registered[name]
    declared = _declared().get(name)
    if declared is None:
        known = frameworks()
        raise InvalidArgumentError(
            f"framework must be one of {', '.join(known)}, got {name!r}{nearest(name, known)}. "
            "Another one is added by the "
            f"entry point group {ENTRY_POINTS!r} of its package, or by udfs.handlers.register_framework"
        )
    try:
        loaded: Framework = declared.load()
    except ModuleNotFoundError as error:
        if str(error.name).startswith("udfs"):
            raise
        package = "cerebro-spark" if declared.dist is None else declared.dist.name
        extras = f"[{','.join(declared.extras)}]" if declared.extras else ""
        raise ImportError(f'{name} is not installed: pip install "{package}{extras}"') from error
    return loaded


def framework_of(model: object) -> Framework | None:
    """Find the framework that recognises a model; ``None`` where none does.

    No framework is imported for it: a model's own is imported already.

    Examples
    --------
    >>> import torch
    >>> framework_of(torch.nn.Linear(1, 1)).name
    'torch'
    """
    candidates = (framework(name) for name in imported_frameworks())
    return next((candidate for candidate in candidates if candidate.recognises(model)), None)


def imported_frameworks() -> tuple[str, ...]:
    """Name the frameworks whose own package this process has imported, and those registered by hand."""
    return tuple(name for name in frameworks() if name in _registered or sys.modules.get(name) is not None)


def register_framework(*added: Framework) -> None:
    """Add frameworks to this process; one of the same name is replaced.

    Workers know them too: whatever is sent to run a model takes along those that were registered when it was made.

    Parameters
    ----------
    *added : Framework
        Frameworks to add; one of the same name is replaced.

    Examples
    --------
    >>> from udfs.handlers import framework
    >>> register_framework(framework("torch"))
    >>> unregister_framework("torch")
    """
    _registered.update({item.name: item for item in added})


def registered_frameworks() -> tuple[Framework, ...]:
    """List the frameworks that :func:`register_framework` added."""
    return tuple(_registered.values())


def unregister_framework(name: str) -> None:
    """Remove a framework that :func:`register_framework` added; one that ships or is installed stays.

    Raises
    ------
    InvalidArgumentError
        It was not registered.
    """
    if name not in _registered:
        raise InvalidArgumentError(f"{name!r} was not registered; registered: {', '.join(_registered) or 'none'}")
    del _registered[name]


@lru_cache(maxsize=1)
def _declared() -> dict[str, EntryPoint]:
    shipped = {entry.name: entry for entry in _SHIPPED}
    return shipped | {entry.name: entry for entry in entry_points(group=ENTRY_POINTS) if entry.name not in shipped}
