"""Saving and loading of Spark ML stages: former names in what is loaded, and models whose state is a network."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from pyspark.ml.util import DefaultParamsReader, DefaultParamsWriter, MLReadable

from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

__all__ = [
    "NetworkReader",
    "NetworkWriter",
    "StageReadable",
    "StageReader",
    "read_network_folder",
    "write_network_folder",
]

_FACTS = "network"
_MODEL_FILE, _NETWORK_FILE = "model.json", "network.bin"

# Params and values of stages that were saved before a rename, by their former names.
_RENAMED_PARAMS = {"several": "imageAggregation"}
_RENAMED_VALUES = {("pooling", "avg"): "mean"}


class StageReader(DefaultParamsReader[Any]):
    """Reader of stages saved by ``DefaultParamsWritable``, with the names of this version or of earlier ones."""

    def __init__(self, cls: type[Any]) -> None:
        super().__init__(cls)

    def load(self, path: str) -> Any:
        """Load from a path.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            The path holds a stage of another class, or names code to import.
        """
        metadata = self._metadata(path)
        return self._with_params(self.cls(), metadata)

    def _metadata(self, path: str) -> dict[str, Any]:
        """Read what was saved of a stage, refuse another class, and rename what has a new name."""
        metadata: dict[str, Any] = self.loadMetadata(path, self.sparkSession)
        saved = metadata["class"].rpartition(".")[2]
        if saved != self.cls.__name__:
            raise InvalidArgumentError(f"{path} holds a {saved}, not a {self.cls.__name__}: load it with {saved}.load")
        for name in ("paramMap", "defaultParamMap"):
            _check_names(metadata[name], path)
        return metadata | {name: _renamed(metadata[name]) for name in ("paramMap", "defaultParamMap")}

    def _with_params(self, stage: Any, metadata: dict[str, Any]) -> Any:
        stage._resetUid(metadata["uid"])  # noqa: SLF001 - as Spark ML's own readers
        self.getAndSetParams(stage, metadata)
        return stage


class StageReadable(MLReadable[Any]):
    """A stage that :class:`StageReader` loads."""

    @classmethod
    def read(cls) -> StageReader:
        """Make a reader of what the stage's ``write()`` wrote."""
        return StageReader(cls)


class NetworkWriter(DefaultParamsWriter):
    """Writer of a model's Params, its ``_facts`` and, as the single value of a Parquet table, its ``_network``.

    Spark writes the files, so every path that Spark can write is valid; on Connect, a path of the server.
    """

    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet."""
        model: Any = self.instance
        self.saveMetadata(model, path, self.sparkSession, extraMetadata={_FACTS: model._facts})  # noqa: SLF001
        network = self.sparkSession.createDataFrame([(bytearray(model._network),)], "network binary")  # noqa: SLF001
        network.coalesce(1).write.parquet(os.path.join(path, "network"))  # noqa: PTH118 - may be a URI


class NetworkReader(StageReader):
    """Reader of models saved by :class:`NetworkWriter`, created by ``Model(network, facts)``."""

    def load(self, path: str) -> Any:
        """Load from a path.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            The path holds a model of another class.
        """
        metadata = self._metadata(path)
        row = self.sparkSession.read.parquet(os.path.join(path, "network")).first()  # noqa: PTH118
        assert row is not None  # the writer's one row
        return self._with_params(self._build(bytes(row["network"]), metadata[_FACTS]), metadata)

    def _build(self, network: bytes, facts: dict[str, Any]) -> Any:
        """Make the model; a stage whose constructor takes keywords has a reader of its own."""
        return self.cls(network, facts)  # type: ignore[call-arg]


def write_network_folder(model: Any, folder: Path) -> None:
    """Write what :class:`NetworkWriter` writes into a folder, which :func:`read_network_folder` reads without Spark."""
    folder.mkdir(parents=True, exist_ok=True)
    params = {param.name: value for param, value in model._paramMap.items()}  # noqa: SLF001 - as NetworkWriter
    described = {"class": type(model).__name__, "params": params, _FACTS: model._facts}  # noqa: SLF001
    (folder / _MODEL_FILE).write_text(json.dumps(described))
    (folder / _NETWORK_FILE).write_bytes(model._network)  # noqa: SLF001


def read_network_folder(cls: type[Any], folder: Path) -> Any:
    """Read a model that :func:`write_network_folder` wrote, in a process without a Spark session.

    Raises
    ------
    optimizer.errors.InvalidArgumentError
        The folder holds a model of another class.
    """
    described = json.loads((folder / _MODEL_FILE).read_text())
    if described["class"] != cls.__name__:
        raise InvalidArgumentError(f"{folder} holds a {described['class']}, not a {cls.__name__}")
    model = cls((folder / _NETWORK_FILE).read_bytes(), described[_FACTS])
    for name, value in described["params"].items():
        model.set(model.getParam(name), value)
    return model


def _check_names(params: dict[str, Any], path: str) -> None:
    """Refuse a model of the form package.module:function: a stage imports what its user says, not what a file says."""
    model = params.get("model")
    if isinstance(model, str) and ":" in model:
        raise InvalidArgumentError(
            f"{path} names the code {model!r} as its model, and nothing is imported by a name in a file: load a stage "
            "that was saved with its network, or set the model again"
        )


def _renamed(params: dict[str, Any]) -> dict[str, Any]:
    """Rename Params and values of earlier versions."""
    current = {_RENAMED_PARAMS.get(name, name): value for name, value in params.items()}
    return {
        name: _RENAMED_VALUES.get((name, value), value) if isinstance(value, str) else value
        for name, value in current.items()
    }
