"""Recipes for backends that run already: files of a store, told by their digests."""

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
    """A store's folder through which recipes reach backends.

    A recipe holds the user's own functions, so it is a pickle, and no socket carries one: the driver writes it to the
    store, and its digest travels in a signed message. A backend opens nothing that has another digest.

    Parameters
    ----------
    store : Store
        In reach of the driver and of every worker.

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

    store: Store

    def send(self, recipe: GroupRecipe) -> str:
        """Write a recipe, and give its digest.

        Raises
        ------
        StoreError
            It cannot be written.
        """
        content: bytes = cloudpickle.dumps(recipe)  # type: ignore[no-untyped-call]
        digest = hashlib.blake2b(content, digest_size=32).hexdigest()
        self.store.write(content, _RECIPES, digest)
        return digest

    def fetch(self, digest: str) -> GroupRecipe:
        """Read a recipe.

        Raises
        ------
        StoreError
            It is not there, or is not what was sent.
        """
        content = self.store.read(_RECIPES, digest)
        if not hmac.compare_digest(hashlib.blake2b(content, digest_size=32).hexdigest(), digest):
            raise StoreError(f"{self.store.url(_RECIPES, digest)} is not what was sent: somebody has changed the store")
        recipe: GroupRecipe = pickle.loads(content)  # noqa: S301 - the driver's own, by its signed digest
        return recipe

    def place(self, file: str | None) -> str | None:
        """Upload a file of this machine; a URI stays as it is."""
        return file if file is None or "://" in file else self.upload(file)

    def upload(self, file: str | Path) -> str:
        """Copy a file of this machine there, once a content, and give its URI.

        Raises
        ------
        StoreError
            It cannot be read or written.
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
            raise StoreError(f"{path} cannot be read: {error}") from error
        return self.store.url(_FILES, digest)
