"""Files that a compiled pipeline writes."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import NamedTemporaryFile

from vista_spark.errors import ExistingFileError

__all__ = ["write_file"]


def write_file(path: str | Path, data: bytes, *, overwrite: bool) -> None:
    """Write a file as a whole: a failure leaves the earlier one as it was.

    Raises
    ------
    ExistingFileError
        The file exists, and `overwrite` is false.
    """
    path = Path(path)
    if not overwrite:
        try:
            with path.open("xb") as file:
                file.write(data)
        except FileExistsError as error:
            raise ExistingFileError(
                f"path must be a new file, got {path}, which exists. Pass overwrite=True to replace it."
            ) from error
        return
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        written = Path(file.name)
        try:
            file.write(data)
            file.close()
            written.chmod(0o666 & ~_umask())
            written.replace(path)
        except BaseException:
            written.unlink(missing_ok=True)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
