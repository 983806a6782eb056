"""The one door through which an exported program is opened: nothing in its archive is run."""

from __future__ import annotations

import io
import re
import warnings
from typing import TYPE_CHECKING, Any

import torch

from udfs.handlers._archives import UnsafeArchiveError, members, read_archive, zipped
from udfs.handlers.torch._archive_rules import checked_payload, checked_program

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

__all__ = ["check_program", "load_program"]

_SHORT = 256
_ROOT = "archive/"


def load_program(
    archive: bytes | os.PathLike[str], *, extra_files: dict[str, str] | None = None
) -> torch.export.ExportedProgram:
    """Open an archive of ``torch.export.save``, once every part of it has been checked.

    ``torch.export.load`` runs what an archive tells it to: pickles, shared libraries, the sizes' text as Python. Here
    only the members of a list are read; the program's texts are checked field by field and written anew; tensors are
    raw numbers, or (older archives) what ``weights_only`` allows. Sample inputs and guards, which are pickles and
    Python, are left out: shapes of inputs are checked by ``program.module(check_guards=False)``. ``extra_files`` gets
    the texts of the archive's extra files, for the keys that it has. Raise UnsafeArchiveError, which says where, if it
    is no such archive, is damaged, or holds what could run code.

    Examples
    --------
    >>> import torch
    >>> buffer = io.BytesIO()
    >>> torch.export.save(torch.export.export(torch.nn.ReLU(), (torch.zeros(2, 3),)), buffer)
    >>> load_program(buffer.getvalue()).module(check_guards=False)(-torch.ones(2, 3)).sum().item()
    0.0
    """
    checked = zipped(check_program(archive, extra_files=extra_files))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of one part of torch about another
            return torch.export.load(checked)
    except Exception as error:
        # Torch's reader fails in whichever way it happens to fail.
        raise UnsafeArchiveError(
            f"torch {torch.__version__} does not open the exported program: {type(error).__name__}: {error}"
        ) from error


def check_program(archive: bytes | os.PathLike[str], *, extra_files: dict[str, str] | None = None) -> dict[str, bytes]:
    """Check an archive as :func:`load_program` does, and return the members to open instead.

    Raises
    ------
    UnsafeArchiveError
        See :func:`load_program`.
    """
    return _checked(_without_root(read_archive(archive)), extra_files if extra_files is not None else {})


def _without_root(content: dict[str, bytes]) -> dict[str, bytes]:
    """Cut off the folder that all members are in; archives of torch 2.7 and earlier have none."""
    if "version" in content:
        return content
    roots = {name.partition("/")[0] for name in content}
    if len(roots) != 1:
        raise UnsafeArchiveError(f"it is not an exported program: it has the members {', '.join(sorted(roots)[:5])}")
    return {_ROOT + name.partition("/")[2]: data for name, data in content.items()}


def _checked(content: dict[str, bytes], extra_files: dict[str, str]) -> dict[str, bytes]:
    extras = {name.rpartition("/")[2]: data for name, data in content.items() if _EXTRA.fullmatch(name)}
    checked = members(content, _MEMBERS)
    for name in extra_files:
        if name in extras:
            extra_files[name] = extras[name].decode(errors="replace")
    return {name: data for name, data in checked.items() if not _EXTRA.fullmatch(name)}


def _as_is(data: bytes) -> bytes:
    return data


def _short(data: bytes) -> bytes:
    if len(data) > _SHORT:
        raise UnsafeArchiveError("it is longer than such a member is")
    return data


def _emptied(data: bytes) -> bytes:
    """Leave sample inputs out: they are a pickle, and nothing needs them."""
    del data
    return b""


def _tensors(data: bytes) -> bytes:
    """Check a pickle of tensors: torch opens it unsafely where it cannot be opened safely."""
    if data:
        try:
            torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
        except Exception as error:
            raise UnsafeArchiveError(f"it is a pickle of more than tensors: {type(error).__name__}") from error
    return data


_EXTRA = re.compile(r"(archive/extra|extra_files)/[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_RULES: dict[str, Callable[[bytes], bytes]] = {
    r"archive/models/model\.json": checked_program,
    r"archive/data/(weights/model_weights|constants/model_constants)_config\.json": checked_payload,
    r"archive/data/(weights/weight|constants/tensor)_[0-9]{1,9}": _as_is,
    r"archive/data/(weights|constants)/model\.pt": _tensors,
    r"archive/data/sample_inputs/model\.pt": _emptied,
    r"archive/(archive_format|archive_version|byteorder|version|\.data/version|\.data/serialization_id)": _short,
    # Of torch 2.7 and earlier.
    r"version": _short,
    r"serialized_exported_program\.json": checked_program,
    r"serialized_(state_dict|constants)\.pt": _tensors,
    r"serialized_example_inputs\.pt": _emptied,
}
_MEMBERS: dict[Any, Callable[[bytes], bytes]] = {
    **{re.compile(name): rule for name, rule in _RULES.items()},
    _EXTRA: _as_is,
}
