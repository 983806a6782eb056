"""Copies of the files of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.store import Store
from udfs.variants import WEIGHTS
from vista_spark.errors import InvalidArgumentError

if TYPE_CHECKING:
    import os

__all__ = ["DOCUMENT", "copy_catalog"]

DOCUMENT = "catalog.json"
"""Name of the document in the folder of a catalog."""


def copy_catalog(source: str, target: str | os.PathLike[str]) -> None:
    """Copy the files of a catalog to a new folder."""
    old, new = Store.from_uri(source), Store.from_uri(str(target))
    if new.list():
        raise InvalidArgumentError(f"path must be a new or empty folder, got {str(target)!r}. Choose another one.")
    for name in old.list(WEIGHTS):
        new.write(old.read(WEIGHTS, name), WEIGHTS, name)
    new.write(old.read(DOCUMENT), DOCUMENT)
