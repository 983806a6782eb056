"""Folders of ``transformers``: on this machine, under a URI, or fetched from a hub by name."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from optimizer.errors import InvalidArgumentError
from udfs.weights import FOLDER_WEIGHTS, WeightsError, file_version, local_file

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONFIG", "PROCESSORS", "copied", "folder_weights", "pretrained_folder"]

CONFIG = "config.json"
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
"""Files that hold the settings of an image processor; the second one is newer."""

_TORCH_WEIGHTS = "pytorch_model.bin"
_SHARDS = f"{FOLDER_WEIGHTS}.index.json"
_FILES = (CONFIG, *PROCESSORS, "tokenizer.json", _SHARDS)
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")


def pretrained_folder(name_or_folder: str | os.PathLike[str], revision: str | None) -> str:
    """Find the folder of a network, in place or fetched from a hub.

    ``name_or_folder`` is a folder here, the URI of one, or a name of the hub, ``owner/network``; ``revision`` is a
    branch, tag or commit of the hub. Raise InvalidArgumentError if there is no such folder or network, or the hub
    cannot be reached.
    """
    text = os.fspath(name_or_folder)
    if "://" in text:
        return text.rstrip("/")
    folder = Path(text).expanduser()
    if folder.is_dir():
        return str(folder.absolute())
    if folder.exists() or _is_local(text):
        kind = "a file" if folder.exists() else "a path that does not exist"
        raise InvalidArgumentError(
            f"{text!r} is not a folder here, and not a hub's name such as 'microsoft/resnet-50', but {kind}. A hub is "
            "not asked for paths of this machine"
        )
    if not _HUB_NAME.fullmatch(text):
        raise InvalidArgumentError(f"{text!r} is not a folder here, and not a hub's name such as 'microsoft/resnet-50'")
    return _fetched(text, revision)


def _is_local(text: str) -> bool:
    """Return whether a text is meant as a path: it starts as one, or its first folder is here."""
    first = text.partition("/")[0]
    return text.startswith(("/", "./", "../", "~")) or ("/" in text and Path(first).is_dir())


def folder_weights(folder: str, shown: str) -> str:
    """Name the file of weights of a folder; WeightsError if it has none, or has them in several files."""
    for name in (FOLDER_WEIGHTS, _TORCH_WEIGHTS):
        if _is_there(f"{folder}/{name}"):
            return f"{folder}/{name}"
    if _is_there(f"{folder}/{_SHARDS}"):
        raise WeightsError(
            f"{shown} has its weights in several files: load it with transformers, and "
            'save_pretrained(folder, max_shard_size="100GB")'
        )
    raise WeightsError(f"{shown} has no {FOLDER_WEIGHTS} and no {_TORCH_WEIGHTS}: give a folder of save_pretrained")


def copied(folder: str, names: Sequence[str], target: Path) -> list[str]:
    """Copy those files of a folder that are there into a local one; return their names.

    Raises
    ------
    WeightsError
        A URI that cannot be opened.
    """
    there = [name for name in names if _is_there(f"{folder}/{name}")]
    for name in there:
        (target / name).write_bytes(local_file(f"{folder}/{name}").read_bytes())
    return there


def _is_there(file: str) -> bool:
    try:
        return bool(file_version(file))
    except WeightsError:
        return False


def _fetched(name: str, revision: str | None) -> str:
    """Download a network's files, or find them in the hub's cache on this machine."""
    try:
        from huggingface_hub import snapshot_download  # an optional extra
        from huggingface_hub.errors import (
            GatedRepoError,
            RepositoryNotFoundError,
            RevisionNotFoundError,
        )
    except ModuleNotFoundError as error:
        raise ImportError(
            f'{name!r} is not a folder here, and a hub\'s name needs: pip install "cerebro-spark[pretrained]"'
        ) from error
    try:
        folder: str = snapshot_download(name, revision=revision, allow_patterns=[*_FILES, FOLDER_WEIGHTS])
        if not Path(folder, FOLDER_WEIGHTS).exists() and not Path(folder, _SHARDS).exists():
            folder = snapshot_download(name, revision=revision, allow_patterns=[*_FILES, _TORCH_WEIGHTS])
    except GatedRepoError as error:
        raise InvalidArgumentError(
            f"{name!r} is open on the hub to those alone who accepted its terms: accept them there, and log in "
            "with `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise InvalidArgumentError(f"the hub has {name!r}, but no revision {revision!r} of it") from error
    except RepositoryNotFoundError as error:
        raise InvalidArgumentError(
            f"{name!r} is neither a folder here nor a network of the hub (a private one needs `hf auth login`)"
        ) from error
    except Exception as error:
        # Sockets, proxies, certificates, offline mode: the library has no base class for them.
        raise InvalidArgumentError(
            f"{name!r} is not a folder here, and the hub cannot be reached ({_cause(error)}); "
            "give a folder that save_pretrained wrote, or run `hf download` where there is network"
        ) from error
    return folder


def _cause(error: Exception) -> str:
    return type(error.__cause__ or error).__name__
