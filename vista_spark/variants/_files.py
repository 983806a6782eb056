"""Files of a catalog: a JSON document, and the weights of each variant."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from optimizer import __version__
from optimizer.variants import Measurement, wilson_interval
from udfs.inference import NetworkFile
from udfs.names import check_name
from udfs.roster import OnnxBuilder, VariantBuilder
from udfs.store import Store
from udfs.variants import WEIGHTS, Structure
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import read_preprocessing
from vista_spark.roster import FeatureLayer, ModelCard
from vista_spark.variants._catalog import Catalog, CatalogVariant
from vista_spark.variants._copy import DOCUMENT

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["card_from", "read_catalog", "write_catalog"]

_FORMAT = 1


def write_catalog(document: Mapping[str, Any], store: Store) -> None:
    """Write the document of a catalog beside its weights."""
    described = {"format": _FORMAT, "written_by": __version__, **document}
    store.write(json.dumps(described, indent=1).encode(), DOCUMENT)


def read_catalog(path: str | os.PathLike[str]) -> Catalog:
    """Read a catalog, and check its files.

    Raises
    ------
    InvalidArgumentError
        There is no catalog, a newer version wrote it, or one of its files is damaged or missing.
    """
    store = Store.from_uri(str(path))
    if not store.exists(DOCUMENT):
        raise InvalidArgumentError(f"path must be the folder of a catalog, got {str(path)!r}, which has no {DOCUMENT}.")
    try:
        document = json.loads(store.read(DOCUMENT))
        written = document["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"{DOCUMENT} of {path} is damaged: {error}. Build the catalog anew.") from error
    if written > _FORMAT:
        raise InvalidArgumentError(
            f"{path} must have a catalog of format {_FORMAT} or lower, got {written}, written by version "
            f"{document.get('written_by')}. Update cerebro-spark."
        )
    try:
        return _catalog(document, store)
    except InvalidArgumentError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{DOCUMENT} of {path} is damaged: {error!r}. Build the catalog anew.") from error


def card_from(document: Mapping[str, Any], entry: Mapping[str, Any], store: Store) -> ModelCard:
    """Return the card of a variant: the base network's structure changed, or a program in a file."""
    preprocessing, size = read_preprocessing(document["preprocessing"]), int(entry["image_size"])
    if size != preprocessing.crop:
        preprocessing = preprocessing.with_size(size)
    name = f"{document['network']}-{entry['name']}"
    file = store.url(WEIGHTS, check_name(entry["file"], "a file of a catalog")).removeprefix("file://")
    if "onnx" in entry:
        builder: Any = OnnxBuilder(**entry["onnx"])
        return ModelCard(name, builder, preprocessing, (FeatureLayer("scores", "0"),), weights=file)
    if document["is_program"]:
        program = NetworkFile("torch", entry["fingerprint"], file, inputs=preprocessing.inputs)
        return ModelCard(name, program, preprocessing)
    builder = VariantBuilder(document["network"], structure=Structure(**entry["structure"]))
    return ModelCard(name, builder, preprocessing, weights=file)


def _catalog(document: Mapping[str, Any], store: Store) -> Catalog:
    for entry in document["variants"]:
        _check_file(store, entry)
    return Catalog(
        task=document["task"],
        classes=tuple(document["classes"]),
        variants=tuple(
            CatalogVariant(_measurement(entry), card_from(document, entry, store), tuple(entry["steps"]))
            for entry in document["variants"]
        ),
        path=store.uri,
        measured_on=document["measured_on"],
        failures=document["failures"],
    )


def _check_file(store: Store, entry: Mapping[str, Any]) -> None:
    name = check_name(entry["file"], "a file of a catalog")
    if not store.exists(WEIGHTS, name):
        raise InvalidArgumentError(
            f"path must have the file {WEIGHTS}/{name} of the variant {entry['name']}, which is missing."
        )
    if hashlib.sha256(store.read(WEIGHTS, name)).hexdigest() != entry["sha256"]:
        raise InvalidArgumentError(
            f"{WEIGHTS}/{name} of the variant {entry['name']} differs from what was written. Restore the file, or "
            "build the catalog anew."
        )


def _measurement(entry: Mapping[str, Any]) -> Measurement:
    low, high = wilson_interval(entry["hits"], entry["rows"])
    return Measurement(
        name=entry["name"],
        accuracy=entry["hits"] / entry["rows"],
        rows=entry["rows"],
        low=low,
        high=high,
        stored_bytes=entry["stored_bytes"],
        resident_bytes=entry["resident_bytes"],
        gflop=entry["gflop"],
        load_seconds=entry["load_seconds"],
        run_seconds={int(size): seconds for size, seconds in entry["run_seconds"].items()},
        image_size=entry["image_size"],
    )
