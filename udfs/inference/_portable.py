"""A trained network that needs none of its author's code, as its framework exports it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from optimizer.errors import CerebroError
from udfs.handlers import Framework, framework, framework_of, register_framework, registered_frameworks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Network = Callable[[Sequence[NDArray[Any]]], tuple[NDArray[np.float32], ...]]

__all__ = ["NotPortableError", "PortableNetwork"]


class NotPortableError(CerebroError, TypeError):
    """A network that cannot be written without its author's code; the message has its framework's reason."""


@dataclass(frozen=True)
class PortableNetwork:
    """A network in inference mode, as bytes."""

    framework: str  # name of the framework that opens it
    # Export of the framework: of torch a .pt2 archive of torch.export, of Keras a .keras archive, which is opened in
    # Keras's safe mode.
    data: bytes
    # Frameworks that were registered by hand, for workers to register too; by default those of this process.
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks, compare=False, repr=False)

    @classmethod
    def of(cls, model: Any, inputs: Sequence[NDArray[Any]]) -> PortableNetwork:
        """Write a network down.

        Parameters
        ----------
        inputs : sequence of array, each of shape (rows, ...)
            A few rows of what it reads.

        Raises
        ------
        NotPortableError
            No framework recognises it, its Python cannot be turned into a graph (torch), or its classes are not
            registered (Keras).
        """
        handler = framework_of(model)
        if handler is None:
            raise NotPortableError(f"{type(model).__name__} is a model of no framework that this process knows")
        try:
            return cls(handler.name, handler.export(model, inputs))
        except Exception as error:
            raise NotPortableError(
                f"{type(model).__name__} cannot be written without its code: {type(error).__name__}: {error}. Its "
                "forward pass has to be free of control flow over data (torch.export), its layers registered (Keras)"
            ) from error

    @property
    def own_framework(self) -> Framework:
        """The framework that opens it.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            It is not known in this process.
        ImportError
            It is not installed.
        """
        register_framework(*self.registered)
        return framework(self.framework)

    @property
    def file_name(self) -> str:
        """A name for a file of these bytes: ``"network.pt2"``."""
        return f"network{self.own_framework.suffix}"

    @cached_property
    def digest(self) -> str:
        """Hash of the bytes."""
        return hashlib.blake2b(self.data, digest_size=16).hexdigest()

    def open(self) -> Network:
        """Open it, once per process.

        Returns
        -------
        callable
            Takes one array an input, of shape ``(rows, ...)``, gives a tuple of one array an output.
        """
        return _opened(self)

    def open_features(self) -> Network:
        """Open it up to its last layer with parameters: a function that returns what this layer reads.

        Raises
        ------
        udfs.handlers.UntraceableModelError
            It has no such layer.
        """
        return self.own_framework.open_features(self.data)

    def __hash__(self) -> int:
        return hash(self.digest)


@lru_cache(maxsize=4)
def _opened(network: PortableNetwork) -> Network:
    return network.own_framework.open_export(network.data)
