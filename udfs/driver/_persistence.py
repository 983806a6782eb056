"""Saving and loading a Spark ML model whose state is a network: Params and facts as JSON, the network as bytes."""

from __future__ import annotations

import os
from typing import Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter

from optimizer.errors import InvalidArgumentError

__all__ = ["NetworkReader", "NetworkWriter"]

_FACTS = "network"


class NetworkWriter(DefaultParamsWriter):
    """Writes a model's Params, its ``_facts`` and, as the one value of a Parquet table, the bytes of its ``_network``.

    By way of Spark, so that any path does which Spark can write, on Connect the server's.
    """

    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet."""
        model: Any = self.instance
        self.saveMetadata(model, path, self.sparkSession, extraMetadata={_FACTS: model._facts})  # noqa: SLF001
        held = self.sparkSession.createDataFrame([(bytearray(model._network),)], "network binary")  # noqa: SLF001
        held.coalesce(1).write.parquet(os.path.join(path, "network"))  # noqa: PTH118 - may be a URI


class NetworkReader(DefaultParamsReader[Any]):
    """Reads what :class:`NetworkWriter` wrote, by ``Model(network, facts)``."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(cls)

    def load(self, path: str) -> Any:
        """Load from a path.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            The path holds a model of another class.
        """
        metadata = self.loadMetadata(path, self.sparkSession)
        saved = metadata["class"].rpartition(".")[2]
        if saved != self.cls.__name__:
            raise InvalidArgumentError(f"{path} holds a {saved}, not a {self.cls.__name__}: load it with {saved}.load")
        row = self.sparkSession.read.parquet(os.path.join(path, "network")).first()  # noqa: PTH118
        assert row is not None  # noqa: S101 - the writer's one row
        model: Any = self.cls(bytes(row["network"]), metadata[_FACTS])  # type: ignore[call-arg]
        model._resetUid(metadata["uid"])  # noqa: SLF001
        self.getAndSetParams(model, metadata)
        return model
