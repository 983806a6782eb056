"""Descriptions of parameters that a class has from its base."""

from __future__ import annotations

import inspect
import re

__all__ = ["with_parameters"]

_SECTION = re.compile(r"^Parameters\n-{10}\n(.*?)(?=\n\n\w+\n-{3,}\n|\Z)", re.DOTALL | re.MULTILINE)

# The names of an entry, and the entry.
_ENTRY = re.compile(r"^(?=(\S[^:\n]*?) ?:)(\S.*(?:\n(?: .*)?)*)", re.MULTILINE)


def with_parameters(text: str | None, base: str | None) -> str | None:
    r"""Append the parameters of a base class to those in the documentation of a class.

    Parameters
    ----------
    text, base : str or None
        Documentation of the class and of its base, in numpy style; ``None`` in optimised bytecode.

    Returns
    -------
    str or None
        ``text`` with the parameters of ``base`` that it does not describe. ``text`` itself if one of them has no
        parameters.

    Examples
    --------
    >>> section = "Parameters\n----------\n"
    >>> both = with_parameters(f"A.\n\n{section}x : int\n    An x.", f"B.\n\n{section}y : int\n    A y.")
    >>> both.splitlines()[4:]
    ['x : int', '    An x.', 'y : int', '    A y.']
    """
    if text is None or base is None:
        return text
    cleaned = inspect.cleandoc(text)
    described, inherited = _SECTION.search(cleaned), _SECTION.search(inspect.cleandoc(base))
    if described is None or inherited is None:
        return text
    known = {names for names, _ in _ENTRY.findall(described[1])}
    added = [entry for names, entry in _ENTRY.findall(inherited[1]) if names not in known]
    return "\n".join([cleaned[: described.end(1)], *(entry.rstrip() for entry in added)]) + cleaned[described.end(1) :]
