"""Settings of the process that a user's function may change: applied to its configuration, and restored for others."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.handlers._random import apply_random, take_random
from udfs.handlers._registry import framework, imported_frameworks

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["apply_settings", "changed_settings", "settings_kept", "take_settings"]

# Keys of Python's own settings, beside the names of the frameworks.
_PYTHON, _ENVIRONMENT = "", "$"


def take_settings() -> dict[str, dict[str, Any]]:
    """Read the settings of the process, and those of its frameworks.

    They are the environment variables, the working directory, numpy's handling of errors, Python's filters of warnings,
    and the settings of :meth:`Framework.take_settings`.
    """
    settings = {name: framework(name).take_settings() for name in imported_frameworks()}
    settings[_PYTHON] = {"directory": _directory(), "numpy": np.geterr(), "warnings": list(warnings.filters)}
    # Last, since the import of a framework's handler may set some.
    settings[_ENVIRONMENT] = dict(os.environ)
    return settings


def changed_settings(
    before: Mapping[str, Mapping[str, Any]], after: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Return the settings of ``after`` that differ; ``None`` for a deleted environment variable.

    Settings of a framework that was imported in between are left out: they have no value to compare with.

    Examples
    --------
    >>> changed_settings({"torch": {"threads": 1, "grad": True}}, {"torch": {"threads": 4, "grad": True}})
    {'torch': {'threads': 4}}
    """
    changes = {
        group: {
            name: values.get(name)
            for name in dict.fromkeys((*before[group], *values))
            if before[group].get(name) != values.get(name)
        }
        for group, values in after.items()
        if group in before
    }
    return {group: values for group, values in changes.items() if values}


def apply_settings(changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Set what :func:`changed_settings` returned."""
    # Environment variables last: some settings of TensorFlow are in them too.
    for group, values in sorted(changes.items(), key=lambda change: change[0] == _ENVIRONMENT):
        if group == _ENVIRONMENT:
            for name, value in values.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
        elif group == _PYTHON:
            _apply_python(values)
        else:
            framework(group).apply_settings(values)


@contextmanager
def settings_kept() -> Iterator[None]:
    """Restore the settings and the random numbers of the process after a block."""
    before, random = take_settings(), take_random()
    try:
        yield
    finally:
        apply_settings(changed_settings(take_settings(), before))
        apply_random(random)


def _apply_python(values: Mapping[str, Any]) -> None:
    if values.get("directory"):
        os.chdir(values["directory"])
    if "numpy" in values:
        np.seterr(**values["numpy"])
    if "warnings" in values:
        warnings.filters[:] = values["warnings"]  # type: ignore[index] # a list in all releases
        warnings._filters_mutated()  # type: ignore[attr-defined] # noqa: SLF001 - as catch_warnings does


def _directory() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # the directory was deleted
        return ""
