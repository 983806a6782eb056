"""Stages saved with their network: the card as JSON, weights and exported graphs as files, no pickle."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pyspark.ml.util import DefaultParamsWriter, MLWritable

from udfs import images
from udfs.driver import StageReadable, StageReader
from udfs.handlers import TensorSpec, framework
from udfs.inference import TOKENIZER, NetworkFile, Tokenization, files_of_this_process
from udfs.names import check_name
from udfs.roster import SAVED_BUILDERS
from udfs.weights import FOLDER_WEIGHTS, WeightsError, local_file
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.roster import FeatureLayer, ModelCard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.ml.param import Params
    from pyspark.sql import SparkSession

    from vista_spark.network._network import Network

__all__ = ["NetworkPersistable", "describe_preprocessing", "read_folder", "read_preprocessing", "write_folder"]

_LOG = logging.getLogger(__name__)

_FACTS = "carried"
_FOLDER = "network"
_STAGE = "stage.json"

# A row of the table of files: small enough for a message of Spark Connect, and for the driver's memory.
_PIECE = 16 << 20
# Rows that one job writes.
_PIECES = 4

# Builders that are saved as data, by class; networks of other builders are saved as graphs.
_BUILDERS = {builder: name for name, builder in SAVED_BUILDERS.items()}

# The names of classes that every process reads for itself.
_IMAGENET = "imagenet-1k"


class NetworkPersistable(StageReadable, MLWritable):
    """Stage that is saved with its network, and loads in any process."""

    def write(self) -> _Writer:
        """Return a writer of the Params, and of the network unless it is in the roster."""
        return _Writer(cast("Params", self))

    @classmethod
    def read(cls) -> StageReader:
        """Return a reader of saved stages."""
        return _Reader(cls)


def write_folder(stage: Any, folder: Path) -> None:
    """Write a stage and its network into a folder, which :func:`read_folder` reads without Spark.

    Make the folder if it is not there. Raise WeightsError if a file of the network's is missing.
    """
    facts, files = _carried(stage)
    params = {param.name: value for param, value in stage._paramMap.items()}  # noqa: SLF001 - as Spark ML's own
    if facts.get("card", {}).get("weights_inside"):
        params.pop("weights", None)
    folder.mkdir(parents=True, exist_ok=True)
    described = {"class": type(stage).__name__, "params": params, _FACTS: facts}
    (folder / _STAGE).write_text(json.dumps(described))
    for name, path in files.items():
        target = folder / _FOLDER / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)


def read_folder(cls: type[Any], folder: Path) -> Any:
    """Read a stage that :func:`write_folder` wrote, in a process without a Spark session.

    Raises
    ------
    optimizer.errors.InvalidArgumentError
        The folder holds a stage of another class, or names code to import.
    """
    described = json.loads((folder / _STAGE).read_text())
    facts, params = described[_FACTS], described["params"]
    if described["class"] != cls.__name__:
        raise InvalidArgumentError(f"{folder} holds a {described['class']}, not a {cls.__name__}")
    if "card" not in facts and ":" in str(params.get("model", "")):
        raise InvalidArgumentError(f"{folder} names the code {params['model']!r}, and nothing is imported by its name")
    stage = cls()
    for name, value in params.items():
        stage.set(stage.getParam(name), value)
    _attach(stage, facts, folder / _FOLDER)
    return stage


def _attach(stage: Any, facts: Mapping[str, Any], folder: Path | None) -> None:
    """Attach to a stage the network that it was saved with."""
    if "card" in facts:
        stage._given = _card_from(facts["card"], folder)  # noqa: SLF001 - what the writer took from there
    if "weights" in facts:
        assert folder is not None  # what the writer wrote
        stage._carried = {stage.getWeights(): str(folder / facts["weights"])}  # noqa: SLF001


class _Writer(DefaultParamsWriter):
    def saveImpl(self, path: str) -> None:
        """Save to a path that does not exist yet, by way of Spark: any path does which Spark can write."""
        stage: Any = self.instance
        facts, files = _carried(stage)
        params = {param.name: value for param, value in stage._paramMap.items()}  # noqa: SLF001 - as Spark ML's own
        if facts.get("card", {}).get("weights_inside"):
            params.pop("weights", None)
        extra = {_FACTS: facts} if facts else None
        self.saveMetadata(stage, path, self.sparkSession, extraMetadata=extra, paramMap=params)
        if files:
            _write(self.sparkSession, files, os.path.join(path, _FOLDER))  # noqa: PTH118 - may be a URI


class _Reader(StageReader):
    def load(self, path: str) -> Any:
        """Load from a path.

        Raises
        ------
        optimizer.errors.InvalidArgumentError
            The path holds a stage of another class, or a network that this version cannot read.
        """
        metadata = self._metadata(path)
        stage = self._with_params(self.cls(), metadata)
        facts = metadata.get(_FACTS)
        if facts:
            folder = _read(self.sparkSession, os.path.join(path, _FOLDER)) if facts["files"] else None  # noqa: PTH118
            _attach(stage, facts, folder)
        return stage


def _carried(stage: Any) -> tuple[dict[str, Any], dict[str, Path]]:
    """Decide what is saved beside a stage's Params: facts, and files by the names that they get."""
    if not stage.isDefined(stage.model):
        return {}, {}
    explicit = stage._given  # noqa: SLF001 - the stage's own writer
    if explicit is None and roster.is_shipped(stage.getModel()):
        return _weights_of(stage)
    if explicit is None and stage.getModel() not in roster.names():
        return {}, {}  # an unknown name: transform says so
    card = roster.of(stage.getModel() if explicit is None else explicit)
    if type(card.builder) not in _BUILDERS:
        return _exported(stage._network_to_save())  # noqa: SLF001
    facts, files = _weights_of(stage)
    described: dict[str, Any] = {**_described(card), "builder": _builder(card.builder)}
    if card.weights is not None and "://" not in card.weights:
        files["card-weights"] = _file(card.weights)
        described["weights"] = "card-weights"
    elif card.weights is not None:
        described["weights_uri"] = card.weights
    _add_tokenizer(card, described, files)
    return {**facts, "card": described, "files": bool(files)}, files


def _weights_of(stage: Any) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the file, or the folder, that the Param ``weights`` names on this machine. A URI stays a URI."""
    named = stage.getWeights()
    if named is None or "://" in named:
        return {}, {}
    path = Path(stage._carried.get(named, named)).expanduser()  # noqa: SLF001
    if not path.exists():
        _LOG.warning("weights %s are not there: the stage is saved without them, and cannot run until they are", named)
        return {}, {}
    if path.is_dir():
        inside = {f"weights/{name}": path / name for name in (FOLDER_WEIGHTS, TOKENIZER) if (path / name).is_file()}
        return {"weights": "weights", "files": True}, inside
    files = {f"weights/{path.name}": path}
    if (path.parent / TOKENIZER).is_file():
        files[f"weights/{TOKENIZER}"] = path.parent / TOKENIZER
    return {"weights": f"weights/{path.name}", "files": True}, files


def _exported(net: Network) -> tuple[dict[str, Any], dict[str, Path]]:
    """Return the network as a graph that needs no code of its author, with its weights."""
    card, handler = net.card, framework(net.card.framework)
    inputs = card.preprocessing.inputs
    builder = card.builder
    if not (isinstance(builder, NetworkFile) and builder.code is None and net.weights is None):
        model = roster.load(card, net.weights, seed=net.seed)
        partial = Path(tempfile.mkdtemp(dir=files_of_this_process())) / f"network{handler.suffix}"
        builder = NetworkFile.without_code(model, handler, inputs, partial)
    _check_layers(net, builder)
    described = _described(card) | {
        "file": f"network{handler.suffix}",
        "digest": builder.digest,
        "inputs": [dataclasses.asdict(spec) for spec in inputs],
        "weights_inside": True,
    }
    files = {f"network{handler.suffix}": local_file(builder.file)}
    _add_tokenizer(card, described, files)
    return {"card": described, "files": True}, files


def _check_layers(net: Network, builder: NetworkFile) -> None:
    """Refuse to save a network of which a layer that a number stands for is no longer there."""
    known = set(framework(builder.framework).run_order(builder, builder.inputs))
    missing = [layer.module for layer in net.card.layers if layer.module not in known]
    if missing:
        raise InvalidArgumentError(
            f"model {net.card.name!r} cannot be saved: its layers {', '.join(missing)} give no tensor of their own in "
            "the exported network; leave them out, as roster.of(model, layers=[...])"
        )


def _described(card: ModelCard) -> dict[str, Any]:
    names = card.class_names
    return {
        "name": card.name,
        "framework": card.framework,
        "preprocessing": describe_preprocessing(card.preprocessing),
        "layers": [[layer.name, layer.module] for layer in card.layers],
        "parameters": card.parameters,
        "reference": card.reference,
        "assumed": card.assumed,
        "class_names": names if names in (None, _IMAGENET) else list(roster.read_class_names(names)),
    }


def _add_tokenizer(card: ModelCard, described: dict[str, Any], files: dict[str, Path]) -> None:
    tokenization = card.preprocessing
    if isinstance(tokenization, Tokenization) and tokenization.tokenizer and "://" not in tokenization.tokenizer:
        files[TOKENIZER] = _file(tokenization.tokenizer)
        described["tokenizer"] = TOKENIZER


def _file(path: str) -> Path:
    file = Path(path).expanduser()
    if not file.is_file():
        raise WeightsError(f"{path} is not there, so it cannot be saved with the stage: put it back, or name another")
    return file


def _beside(folder: Path, name: object) -> str:
    """Name a file of a saved stage, which does not lead out of its folder."""
    return str(folder / check_name(name, "a file of a saved stage"))


def _card_from(described: Mapping[str, Any], folder: Path | None) -> ModelCard:
    preprocessing = read_preprocessing(described["preprocessing"])
    if "tokenizer" in described and folder is not None:
        preprocessing = dataclasses.replace(preprocessing, tokenizer=_beside(folder, described["tokenizer"]))
    weights = described.get("weights_uri")
    if "weights" in described and folder is not None:
        weights = _beside(folder, described["weights"])
    builder: Any
    if "builder" in described:
        builder = _builder_from(described["builder"])
    else:
        assert folder is not None  # what the writer wrote
        inputs = tuple(TensorSpec(tuple(spec["shape"]), spec["dtype"]) for spec in described["inputs"])
        file = _beside(folder, described["file"])
        builder = NetworkFile(described["framework"], described["digest"], file, inputs=inputs)
    names = described["class_names"]
    return ModelCard(
        name=described["name"],
        builder=builder,
        preprocessing=preprocessing,
        layers=tuple(FeatureLayer(*layer) for layer in described["layers"]),
        parameters=described["parameters"],
        reference=described["reference"],
        framework=described["framework"],
        weights=weights,
        class_names=tuple(map(str, names)) if isinstance(names, list) else _IMAGENET if names else None,
        assumed=described["assumed"],
    )


# ---- plain values of the project's own


def _builder(builder: Any) -> dict[str, Any]:
    """Describe a builder of the roster, which is a dataclass of plain values."""
    return {"type": _BUILDERS[type(builder)], "fields": dataclasses.asdict(builder)}


def _builder_from(described: Mapping[str, Any]) -> Any:
    builder = SAVED_BUILDERS.get(described["type"])
    if builder is None:
        raise InvalidArgumentError(f"a saved stage names the builder {described['type']!r}, which is not the roster's")
    return builder(**_tuples(described["fields"]))


def describe_preprocessing(value: Any) -> dict[str, Any]:
    """Return a preprocessing or tokenization as plain data for JSON."""
    return {"type": type(value).__name__, "fields": {name: _plain(entry) for name, entry in _fields(value).items()}}


def _fields(value: Any) -> dict[str, Any]:
    return {entry.name: getattr(value, entry.name) for entry in dataclasses.fields(value)}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return describe_preprocessing(value)
    return [_plain(entry) for entry in value] if isinstance(value, tuple) else value


_PREPROCESSINGS = {
    "Preprocessing": images.Preprocessing,
    "Preprocessings": images.Preprocessings,
    "Tokenization": Tokenization,
}


def read_preprocessing(described: Mapping[str, Any]) -> Any:
    """Return what :func:`describe_preprocessing` described."""

    def value(entry: Any) -> Any:
        if isinstance(entry, dict):
            return read_preprocessing(entry)
        return tuple(value(inner) for inner in entry) if isinstance(entry, list) else entry

    fields = {name: value(entry) for name, entry in described["fields"].items()}
    return _PREPROCESSINGS[described["type"]](**fields)


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


# ---- files as a table of Spark's, so that any path does which Spark can write


def _pieces(files: Mapping[str, Path]) -> Iterator[tuple[str, int, bytearray]]:
    for name, path in files.items():
        with path.open("rb") as file:
            number = 0
            while (piece := file.read(_PIECE)) or not number:
                yield name, number, bytearray(piece)
                number += 1


def _write(spark: SparkSession, files: Mapping[str, Path], path: str) -> None:
    contents: list[tuple[str, int, bytearray]] = []

    def flush() -> None:
        spark.createDataFrame(contents, "name string, number int, content binary").coalesce(1).write.mode(
            "append"
        ).parquet(path)
        contents.clear()

    for piece in _pieces(files):
        contents.append(piece)
        if len(contents) == _PIECES:
            flush()
    if contents:
        flush()


def _read(spark: SparkSession, path: str) -> Path:
    """Put the files of a saved stage into a folder of this process's; equal files of two stages are one."""
    folder = Path(tempfile.mkdtemp(dir=files_of_this_process()))
    table = spark.read.parquet(path)
    digest = hashlib.sha256()
    for row in sorted(table.select("name", "number").collect()):
        content = table.where((table["name"] == row["name"]) & (table["number"] == row["number"])).first()
        assert content is not None  # a row that was just listed
        target = folder / row["name"]
        if not target.resolve().is_relative_to(folder.resolve()):
            raise InvalidArgumentError(f"{path} names a file outside of the stage: {row['name']!r}")
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("ab") as file:
            file.write(content["content"])
        digest.update(f"{row['name']}|{row['number']}|".encode())
        digest.update(content["content"])
    known = files_of_this_process() / digest.hexdigest()
    if not known.exists():
        return folder.rename(known)
    return known
