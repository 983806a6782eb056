"""JSON files of a store: each with a version and a digest of its content, replaced in one step."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from udfs.store import Store

__all__ = ["DamagedError", "document", "typed", "write_document"]

_FORMAT = 2
_KEYS = {"format", "digest", "content"}


class DamagedError(CerebroError, ValueError):
    """A file of a store that is not what was written; the message names it, the defect and the remedy."""


def write_document(store: Store, content: Any, *parts: str) -> None:
    """Write plain data as a document, or replace one: concurrent readers get the old one or the new one.

    Parameters
    ----------
    content : object
        Dicts with string keys, lists, strings, numbers, booleans and ``None``.

    Raises
    ------
    udfs.store.StoreError
        As :meth:`udfs.store.Store.write`.
    """
    # What is hashed is what a reader gets back: tuples become lists. The order of keys stays, and is not hashed.
    content = json.loads(json.dumps(content))
    wrapped = {"format": _FORMAT, "digest": _digest(_text(content)), "content": content}
    store.write(json.dumps(wrapped, indent=1).encode(), *parts)


@contextmanager
def document(store: Store, *parts: str, remedy: str) -> Iterator[Any]:
    """Read a document for a block that takes it apart: a defect that either finds is told with the file's name.

    A file of an earlier version, which has no digest, is given as it is.

    Parameters
    ----------
    remedy : str
        For the message: what to do where the file is damaged.

    Raises
    ------
    DamagedError
        It is not JSON, differs from its digest, is of a later version, or the block raised a KeyError, TypeError,
        ValueError, AttributeError, IndexError or OverflowError over its content.
    udfs.store.StoreError
        It is not there, or cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.store import Store
    >>> store = Store.from_uri(tempfile.mkdtemp())
    >>> write_document(store, {"answer": 42}, "facts.json")
    >>> with document(store, "facts.json", remedy="write it again") as facts:
    ...     facts["answer"]
    42
    >>> store.write(store.read("facts.json").replace(b"42", b"43"), "facts.json")
    >>> try:
    ...     with document(store, "facts.json", remedy="write it again") as facts:
    ...         pass
    ... except DamagedError as error:
    ...     print(str(error).rpartition("/")[2])
    facts.json is damaged (its content is not that of its digest): write it again
    """
    data = store.read(*parts)
    try:
        yield _content(data)
    except CerebroError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        reason = str(error) if isinstance(error, _DefectError) else f"{type(error).__name__}: {str(error)[:200]}"
        raise DamagedError(f"{store.url(*parts)} is damaged ({reason}): {remedy}") from error


def typed(content: Any, name: str, *kinds: type) -> Any:
    """Get a field of a document, of a type; a whole number will do for a float.

    Raises
    ------
    KeyError, TypeError
        There is no such field, or it is of another type.

    Examples
    --------
    >>> typed({"seconds": 3}, "seconds", float)
    3.0
    """
    value = content[name]
    if type(value) in kinds:
        return value
    if float in kinds and type(value) is int:
        return float(value)
    raise TypeError(f"{name} is a {type(value).__name__}, not a {' or '.join(kind.__name__ for kind in kinds)}")


class _DefectError(ValueError):
    """A defect that the reader words itself."""


def _content(data: bytes) -> Any:
    try:
        read = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _DefectError(f"it is not JSON: {type(error).__name__}") from error
    if not isinstance(read, dict) or not set(read) >= _KEYS:
        return read
    if read["format"] != _FORMAT:
        raise _DefectError(f"it is of the format {read['format']!r}, and this version reads {_FORMAT}")
    if _digest(_text(read["content"])) != read["digest"]:
        raise _DefectError("its content is not that of its digest")
    return read["content"]


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
