"""Delivery of recipes and files to running backends, through a store."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from udfs.store import StoreError

if TYPE_CHECKING:
    from udfs.serving._recipes import GroupRecipe
    from udfs.store import Store

__all__ = ["Deliveries"]

_RECIPES, _FILES = "recipes", "files"
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Deliveries:
    """Store folder through which recipes reach running backends.

    A recipe contains the user's functions, so it is a pickle, and no socket carries a pickle: the driver writes the
    recipe to the store and sends its digest in a signed message. A backend opens only a recipe with that digest.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.serving import FunctionRecipe, GroupRecipe, TensorReader
    >>> from udfs.store import Store
    >>> deliveries = Deliveries(Store.from_uri(tempfile.mkdtemp()))
    >>> digest = deliveries.send(GroupRecipe("f", {"f": FunctionRecipe(lambda arrays: arrays, TensorReader(()))}))
    >>> deliveries.fetch(digest).name
    'f'
    """

    store: Store  # store that the driver and every worker can access

    def send(self, recipe: GroupRecipe) -> str:
        """Write a recipe and return its digest.

        Raises
        ------
        StoreError
            The store is not writable.
        """
        content: bytes = cloudpickle.dumps(recipe)  # type: ignore[no-untyped-call]
        digest = hashlib.blake2b(content, digest_size=32).hexdigest()
        self.store.write(content, _RECIPES, digest)
        return digest

    def fetch(self, digest: str) -> GroupRecipe:
        """Read a recipe by its digest.

        Raises
        ------
        StoreError
            The recipe is missing, or its content does not match the digest.
        """
        content = self.store.read(_RECIPES, digest)
        if not hmac.compare_digest(hashlib.blake2b(content, digest_size=32).hexdigest(), digest):
            raise StoreError(f"{self.store.url(_RECIPES, digest)} was changed in the store: its digest does not match.")
        recipe: GroupRecipe = pickle.loads(content)  # noqa: S301 - written by the driver, checked by its signed digest
        return recipe

    def place(self, file: str | None) -> str | None:
        """Upload a local file and return its URI; return a URI unchanged."""
        return file if file is None or "://" in file else self.upload(file)

    def upload(self, file: str | Path) -> str:
        """Upload a local file, once per content, and return its URI.

        Raises
        ------
        StoreError
            The file cannot be read, or the store is not writable.
        """
        path = Path(file).expanduser()
        try:
            with path.open("rb") as source:
                digest = hashlib.file_digest(source, "sha256").hexdigest()
                if not self.store.exists(_FILES, digest):
                    source.seek(0)
                    with self.store.writing(_FILES, digest) as target:
                        while chunk := source.read(_CHUNK):
                            target.write(chunk)
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error}.") from error
        return self.store.url(_FILES, digest)
