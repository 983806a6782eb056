"""The one rule for names that become folders and files of a store or of a node's cache."""

from __future__ import annotations

import re

from optimizer.errors import InvalidArgumentError

__all__ = ["check_name"]

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


def check_name(name: object, what: str) -> str:
    """Check a name that a caller gives, or that a file or a message holds, before a path is made of it.

    Returns
    -------
    str
        The name: letters, digits, ``.``, ``_`` and ``-``, 1 to 128 of them, no dot first.

    Examples
    --------
    >>> check_name("run-2.1", "a run")
    'run-2.1'
    >>> check_name("../run", "a run")
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: the name of a run has letters, digits, '.', '_' and '-', from 1 to 128, and \
no dot first; got '../run'
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise InvalidArgumentError(
            f"the name of {what} has letters, digits, '.', '_' and '-', from 1 to 128, and no dot first; "
            f"got {str(name)[:200]!r}"
        )
    return name
