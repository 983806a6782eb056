"""Archives of networks of unknown authors: read member by member, and refused where they run code."""

from __future__ import annotations

import io
import json
import zipfile
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError

if TYPE_CHECKING:
    import os
    import re
    from collections.abc import Callable

__all__ = ["UnsafeArchiveError", "members", "parsed", "read_archive", "zipped"]

_ENCRYPTED = 0x1


class UnsafeArchiveError(CerebroError, ValueError):
    """A network's archive that could run code, or reach outside of itself, when it is opened; the message says how."""


def read_archive(archive: bytes | os.PathLike[str]) -> dict[str, bytes]:
    """Read a ZIP archive's members by name. None may be compressed, so that none is larger than the archive.

    Raise UnsafeArchiveError if it is not a ZIP archive, is damaged, or names a member twice, so that two readers might
    see two contents.

    Examples
    --------
    >>> buffer = io.BytesIO()
    >>> with zipfile.ZipFile(buffer, "w") as made:
    ...     made.writestr("version", "1")
    >>> read_archive(buffer.getvalue())
    {'version': b'1'}
    """
    source = io.BytesIO(archive) if isinstance(archive, bytes) else archive
    content: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(source) as opened:
            for info in opened.infolist():
                if info.is_dir():
                    continue
                if info.filename in content:
                    raise UnsafeArchiveError(f"the archive has two members {info.filename!r}")
                if info.flag_bits & _ENCRYPTED or info.compress_type != zipfile.ZIP_STORED:
                    raise UnsafeArchiveError(f"the archive's member {info.filename!r} is encrypted or compressed")
                content[info.filename] = opened.read(info)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        if isinstance(error, UnsafeArchiveError):
            raise
        raise UnsafeArchiveError(f"the archive is damaged: {type(error).__name__}: {error}") from error
    return content


def zipped(content: dict[str, bytes]) -> io.BytesIO:
    """Move members to an archive of our own, so that nothing else can be read from it."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for name in list(content):
            written.writestr(name, content.pop(name))
    buffer.seek(0)
    return buffer


def members(content: dict[str, bytes], rules: dict[re.Pattern[str], Callable[[bytes], bytes]]) -> dict[str, bytes]:
    """Check every member by the rule that its name matches, and return what the rules give.

    A rule takes a member's bytes and gives those to open in their place. Raise UnsafeArchiveError if a member matches
    no rule, or its rule refuses it.
    """
    checked = {}
    for name, data in content.items():
        rule = next((rule for pattern, rule in rules.items() if pattern.fullmatch(name)), None)
        if rule is None:
            raise UnsafeArchiveError(f"the archive has the member {name[:120]!r}, which is no part of a network")
        try:
            checked[name] = rule(data)
        except UnsafeArchiveError as error:
            raise UnsafeArchiveError(f"{name}: {error}") from error
    return checked


def parsed(data: bytes | str) -> Any:
    """Parse JSON; UnsafeArchiveError if it is none, or nested too deeply."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnsafeArchiveError(f"not JSON: {type(error).__name__}: {str(error)[:200]}") from error
