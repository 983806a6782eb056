"""Scratch files whose pages are the memory of tensors."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
import tempfile
from typing import TYPE_CHECKING, cast

import torch

from udfs.node import node_folder
from udfs.training import TrainingError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["Scratch", "release"]

# Smaller tensors stay in memory: a file takes a descriptor while it is made, and whole pages.
_SMALLEST = 1 << 16

# A path to a file without a name; torch keeps it with the storage.
_OPEN_FILES = "/proc/self/fd/"

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Scratch:
    """Allocator of tensors in files without a name: the system deletes them with the tensor, or with the process.

    The kernel writes their pages to the disk when it needs memory, and reads them back on access. Each file is
    allocated in full before the tensor is returned, because a page of a mapped file that finds no room on the disk
    would end the process.

    Parameters
    ----------
    folder : str or path, optional
        Folder on a local disk. Default: the node's cache folder. A folder of a ``tmpfs`` is memory.

    Examples
    --------
    >>> weights = torch.ones(200, 100)
    >>> Scratch().moved(weights).equal(weights)
    True
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        if not sys.platform.startswith("linux"):
            raise TrainingError(f"offload must be None on {sys.platform}: files of a model need Linux. Train in memory")
        self._folder: str | Path = node_folder("scratch") if folder is None else os.fspath(folder)

    @staticmethod
    def is_large(tensor: object) -> bool:
        """Return whether a value is a tensor that is large enough for a file."""
        return isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.nbytes > _SMALLEST

    @classmethod
    def takes(cls, tensor: object) -> bool:
        """Return whether a value is a large tensor in memory."""
        if not isinstance(tensor, torch.Tensor) or not cls.is_large(tensor):
            return False
        return tensor.device.type == "cpu" and not _is_mapped(tensor)

    def check_room(self, nbytes: int, purpose: str) -> None:
        """Raise TrainingError unless the disk has room for a number of bytes."""
        free = self._free()
        if nbytes > free:
            raise TrainingError(self._full(nbytes, purpose, free))

    def empty(self, like: torch.Tensor) -> torch.Tensor:
        """Allocate a tensor of zeros with the shape, the strides and the type of another, in a file.

        Raises
        ------
        TrainingError
            The disk is full, or the folder cannot be written.
        """
        span = 1 + sum((size - 1) * stride for size, stride in zip(like.shape, like.stride(), strict=True))
        storage = self._mapped(span * like.element_size(), "a tensor")
        flat = torch.empty(0, dtype=like.dtype).set_(storage)
        return flat.as_strided(like.shape, like.stride())

    def moved(self, tensor: torch.Tensor) -> torch.Tensor:
        """Copy a tensor to a file; return it as it is if it is small, or in a file already."""
        if not self.takes(tensor):
            return tensor
        with torch.no_grad():
            return self.empty(tensor.detach()).copy_(tensor.detach())

    def buffer(self, nbytes: int) -> memoryview:
        """Allocate writable bytes in a file, for a checkpoint.

        Raises
        ------
        TrainingError
            See :meth:`empty`.
        """
        storage = self._mapped(nbytes, "a checkpoint")
        return torch.empty(0, dtype=torch.uint8).set_(storage).numpy().data

    def _mapped(self, nbytes: int, purpose: str) -> torch.UntypedStorage:
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                os.posix_fallocate(file.fileno(), 0, nbytes)
                storage = torch.UntypedStorage.from_file(f"{_OPEN_FILES}{file.fileno()}", shared=True, nbytes=nbytes)
                return cast("torch.UntypedStorage", storage)
        except OSError as error:
            if error.errno in _FULL:
                raise TrainingError(self._full(nbytes, purpose, self._free())) from error
            raise TrainingError(self._unusable(error)) from error

    def _free(self) -> int:
        try:
            disk = os.statvfs(self._folder)
        except OSError as error:
            raise TrainingError(self._unusable(error)) from error
        return disk.f_bavail * disk.f_frsize

    def _unusable(self, error: OSError) -> str:
        return (
            f"folder must be a folder that this process can write, got {str(self._folder)!r} ({error.strerror}). Name "
            "one on a local disk"
        )

    def _full(self, nbytes: int, purpose: str, free: int) -> str:
        return (
            f"folder must have {nbytes:,} bytes free for {purpose}, got {free:,} bytes in "
            f"{str(self._folder)!r}. Free some space, or name a folder on a larger disk; checkpoints stored so far are "
            "intact"
        )


def release(tensors: Iterable[torch.Tensor]) -> None:
    """Unmap the pages of tensors that are in files: the process holds none of them until the next access."""
    for tensor in tensors:
        if _is_mapped(tensor):
            storage = tensor.untyped_storage()
            _LIBC.madvise(ctypes.c_void_p(storage.data_ptr()), ctypes.c_size_t(storage.nbytes()), mmap.MADV_DONTNEED)


def _is_mapped(tensor: torch.Tensor) -> bool:
    return str(tensor.untyped_storage().filename or "").startswith(_OPEN_FILES)


_LIBC = ctypes.CDLL(None)
