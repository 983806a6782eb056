"""Folders of shared models: JSON with parts, dependencies and digests, and a file of weights per part."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer import __version__
from udfs.serving import Head, read_head
from udfs.weights import WeightsError
from vista_spark.errors import ExistingFileError, InvalidArgumentError
from vista_spark.features import CNNFeaturizer
from vista_spark.network import read_folder, write_folder
from vista_spark.sharing._attributes import SharedAttribute
from vista_spark.sharing._parts import TRUNK, SharedPart, save_head

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_shared", "write_shared"]

_FACTS = "shared.json"
_FORMAT = 1


def write_shared(
    folder: Path,
    trunk: CNNFeaturizer,
    parts: Sequence[SharedPart],
    attributes: Sequence[SharedAttribute],
    heads: Sequence[Head],
) -> None:
    """Write a shared model to a new folder; see :meth:`SharedModel.save`."""
    if folder.exists():
        raise ExistingFileError(f"folder must be new, got {folder}, which exists. Choose another one, or remove it.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        partial = Path(name) / "partial"
        write_folder(trunk, partial / TRUNK)
        (partial / "heads").mkdir()
        folders = [TRUNK]
        for place, head in enumerate(heads):
            folders.append(f"heads/{place}.safetensors")
            save_head(head, partial / folders[-1])
        described = [
            asdict(part) | {"files": {path: _digest(partial / path) for path in _files(partial, place)}}
            for part, place in zip(parts, folders, strict=True)
        ]
        facts = {
            "format": _FORMAT,
            "version": __version__,
            "parts": described,
            "attributes": [asdict(attribute) for attribute in attributes],
        }
        (partial / _FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")
        os.replace(partial, folder)  # noqa: PTH105 - atomic: no reader sees half of it


def read_shared(folder: Path) -> tuple[CNNFeaturizer, Head, list[SharedAttribute]]:
    """Read the parts of a shared model; see :meth:`SharedModel.load`."""
    try:
        facts = json.loads((folder / _FACTS).read_text(encoding="utf-8"))
        written = int(facts["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(
            f"folder must be one that SharedModel.save wrote, got {folder}: {error!r}."
        ) from error
    if written > _FORMAT:
        raise InvalidArgumentError(
            f"folder must be of format {_FORMAT} or below, got {written} in {folder}, written by version "
            f"{facts.get('version')}. Install that version."
        )
    try:
        return _from_facts(facts, folder)
    except InvalidArgumentError:
        raise
    except (OSError, ValueError, KeyError, TypeError, WeightsError) as error:
        raise InvalidArgumentError(
            f"folder must have the parts that {_FACTS} lists, got {folder}: {error}. Save the model anew."
        ) from error


def _from_facts(facts: Mapping[str, Any], folder: Path) -> tuple[CNNFeaturizer, Head, list[SharedAttribute]]:
    for part in facts["parts"]:
        for name, digest in part["files"].items():
            if not (folder / name).resolve().is_relative_to(folder.resolve()):
                raise InvalidArgumentError(f"files of a part must lie in the folder, got {name!r}.")
            if _digest(folder / name) != digest:
                raise InvalidArgumentError(
                    f"{folder / name} must have the SHA-256 {digest}, got another one: it is damaged or was changed. "
                    "Restore it from a copy, or save the model anew."
                )
    attributes = [SharedAttribute(**(fields | {"classes": tuple(fields["classes"])})) for fields in facts["attributes"]]
    heads = [read_head(str(folder / min(part["files"]))) for part in facts["parts"][1:]]
    if [len(head.bias) for head in heads] != [len(attribute.classes) for attribute in attributes]:
        raise InvalidArgumentError(f"parts must have an upper part per attribute, got {len(heads)} in {folder}.")
    head = Head(np.concatenate([head.weight for head in heads]), np.concatenate([head.bias for head in heads]))
    return read_folder(CNNFeaturizer, folder / TRUNK), head, attributes


def _files(root: Path, place: str) -> list[str]:
    """List the files of a part, relative to the root."""
    path = root / place
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    return [file.relative_to(root).as_posix() for file in files if file.is_file()]


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
