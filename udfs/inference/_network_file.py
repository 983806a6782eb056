"""A network in a file: a builder that a card may have, whose weights travel with it."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udfs.handlers import Framework, framework, register_framework, registered_frameworks
from udfs.weights import local_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers import TensorSpec

__all__ = ["NetworkFile", "files_of_this_process"]


@dataclass(frozen=True, eq=False)
class NetworkFile:
    """Builder of a network that lies in a file. Two are equal where their networks are."""

    framework: str
    digest: str  # changes with the network's code and with its weights
    file: str  # a path, or what udfs.weights.local_file finds on a worker
    # Code of a user's network, which its framework packed for Spark's closures. Without it the network needs no code of
    # its author.
    code: bytes | None = field(default=None, repr=False)
    # Only inputs that a network without its author's code reads; empty if it reads others too.
    inputs: tuple[TensorSpec, ...] = ()
    # Frameworks that were registered by hand, for workers to register too; by default those of this process.
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks, repr=False)

    @classmethod
    def of(cls, model: Any, handler: Framework, inputs: Sequence[TensorSpec]) -> NetworkFile:
        """Copy a model of the user with its current weights; the model is not changed.

        Raises
        ------
        udfs.handlers.UntraceableModelError
            It cannot be sent to another process.
        """
        digest = handler.fingerprint(model)
        reads = "_".join("x".join(map(str, spec.shape)) for spec in inputs)
        file = files_of_this_process() / f"{digest}-{reads}.network"
        if handler.is_exported(model):
            if not file.exists():
                partial = file.with_name(f".{file.name}")
                handler.write_network(model, inputs, partial)
                partial.replace(file)
            return cls(handler.name, digest, str(file), inputs=tuple(inputs))
        if file not in _packed:
            partial = file.with_name(f".{file.name}")
            code = handler.pack(model, inputs, partial)
            partial.replace(file)
            _packed[file] = code
        return cls(handler.name, digest, str(file), _packed[file])

    @classmethod
    def without_code(cls, model: Any, handler: Framework, inputs: Sequence[TensorSpec], file: Path) -> NetworkFile:
        """Write a model to a file so that it needs none of its author's code.

        Raises
        ------
        udfs.handlers.UntraceableModelError
            It needs its author's code; the message says for what.
        """
        handler.write_network(model, inputs, file)
        return cls(handler.name, handler.fingerprint(model), str(file), inputs=tuple(inputs))

    def __call__(self) -> Any:
        """Open the network, in inference mode and for the caller alone."""
        register_framework(*self.registered)
        handler, path = framework(self.framework), local_file(self.file)
        return handler.open_network(path) if self.code is None else handler.unpack(self.code, path)

    def at(self, file: str) -> NetworkFile:
        """Return the same network in another place."""
        return replace(self, file=file)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NetworkFile) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[str, str, bool]:
        return self.framework, self.digest, self.code is None


_packed: dict[Path, bytes] = {}
"""Code of the networks that this process has packed, by file."""


@cache
def files_of_this_process() -> Path:
    """A folder for files of networks, which lives as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix="cerebro-networks-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
