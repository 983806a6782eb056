"""Read files of weights into state dicts, as data: no code of a file is executed."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from udfs.packing import safetensors_metadata
from udfs.weights._file import FOLDER_WEIGHTS, WeightsError, local_file, redacted

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    import torch
    from torch import nn

__all__ = ["fit_state_dict", "read_state_dict"]

_NESTS = ("state_dict", "model_state_dict", "model", "module", "net")
_PREFIXES = ("module.", "_orig_mod.")
_SHOWN = 8

# How torch's files from before 1.6 begin, and how pickles of the protocols 0, 1 and 2 to 5 do.
_TORCH_LEGACY = b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_PICKLES = (b"(dp", b"(lp", b"}q", b"]q", b"\x80")
_PICKLE_NAMES = (".pkl", ".pickle")


def read_state_dict(uri: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Read named tensors from a file, deciding its format by its content.

    Formats: torch's zip files (memory-mapped) and its older ones, safetensors (memory-mapped) and numpy's ``.npz``. In
    nested dicts and lists the path becomes the key: ``"fire2.0"``. Checkpoints that hold the state dict under
    ``"state_dict"``, ``"model_state_dict"``, ``"model"``, ``"module"`` or ``"net"`` are opened, and a ``module.`` or
    ``_orig_mod.`` that begins every key is cut off.

    Parameters
    ----------
    uri : str or path
        A local path, or a URI of a file system that pyarrow knows: ``file://``, ``hdfs://``, ``s3://``, ``gs://``,
        ``abfs://``. A remote file is copied once to each node, into the folder in the environment variable
        ``CEREBRO_SPARK_CACHE``, and again when its size or modification time changes. Workers also accept
        ``sparkfile:NAME``, a file that was added to the session by ``addArtifacts(path, file=True)``. A local folder,
        as ``transformers`` writes it, stands for its ``model.safetensors``.

    Returns
    -------
    dict of str to torch.Tensor
        On the CPU, shapes and element types as stored. A memory-mapped tensor is paged in as it is touched and shares
        its pages with every other process of the node that reads the file, so the file must not be rewritten in place.

    Raises
    ------
    WeightsError
        No such file, an unknown or damaged format, a pickle of arrays, a file that asks for code to be run (the message
        names it), or no tensors in it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/w.npz", **{"fc.weight": np.ones((2, 3), "float32")})
    ...     read_state_dict(f"file://{folder}/w.npz")["fc.weight"].shape
    torch.Size([2, 3])
    """
    shown, path = redacted(uri), local_file(_in_folder(uri))
    try:
        state = dict(_tensors(_state_dict_in(_reader(path, shown)(path)), shown))
    except WeightsError:
        raise
    except _CodeError as error:
        raise WeightsError(
            f"{shown} asks to run {error}: it is more than arrays, and no code of a weights file is executed. "
            "Save the state dict alone (torch.save(model.state_dict(), ...), or safetensors)"
        ) from error
    except Exception as error:
        # A damaged file fails inside a foreign parser, in whichever way that parser happens to fail.
        raise WeightsError(f"{shown} cannot be read, it may be damaged: {type(error).__name__}: {error}") from error
    if not state:
        raise WeightsError(f"{shown} holds no tensors")
    return _without_prefixes(state)


def _in_folder(uri: str | os.PathLike[str]) -> str | os.PathLike[str]:
    path = Path(uri)
    return inside if path.is_dir() and (inside := path / FOLDER_WEIGHTS).is_file() else uri


def fit_state_dict(module: nn.Module, state: Mapping[str, torch.Tensor], name: str) -> None:
    """Load weights into a module, exactly its own.

    The tensors are assigned, not copied: memory-mapped ones stay mapped, and a module on the meta device becomes real.
    A tensor of another element type than the module's is converted, which copies it. ``num_batches_tracked`` of a batch
    normalisation may be missing, as in weights from before torch 0.4.1: inference does not use it. Raise WeightsError
    if keys are missing or unexpected, or shapes differ: the message lists them; the module is unchanged.

    Examples
    --------
    >>> import torch
    >>> linear = torch.nn.Linear(2, 1)
    >>> fit_state_dict(linear, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, "linear")
    >>> linear(torch.ones(1, 2)).item()
    2.0
    """
    import torch  # an optional extra

    expected = module.state_dict()
    counters = {
        key: torch.zeros((), dtype=torch.long)
        for key in expected
        if key.endswith("num_batches_tracked") and key not in state
    }
    state = {**state, **counters}
    faults = [
        *_fault("missing", [key for key in expected if key not in state]),
        *_fault("unexpected", [key for key in state if key not in expected]),
        *_fault(
            "of another shape",
            [
                f"{key} is {tuple(state[key].shape)} where the model has {tuple(tensor.shape)}"
                for key, tensor in expected.items()
                if key in state and state[key].shape != tensor.shape
            ],
        ),
    ]
    if faults:
        raise WeightsError(f"the weights do not fit {name} ({len(expected)} keys): {'; '.join(faults)}")
    module.load_state_dict({key: state[key].to(tensor.dtype) for key, tensor in expected.items()}, assign=True)


def _fault(kind: str, entries: Sequence[str]) -> list[str]:
    if not entries:
        return []
    rest = f" and {len(entries) - _SHOWN} more" if len(entries) > _SHOWN else ""
    return [f"{len(entries)} {kind}: {', '.join(entries[:_SHOWN])}{rest}"]


def _reader(path: Path, shown: str) -> Callable[[Path], object]:
    with path.open("rb") as file:
        head = file.read(16)
        metadata = safetensors_metadata(file)
    if head.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        return _read_npz if all(member.endswith(".npy") for member in members) else _read_torch
    if _TORCH_LEGACY in head:
        return partial(_read_torch, mmap=False)
    if metadata is not None:
        return _read_safetensors
    if head.startswith(_PICKLES) or shown.endswith(_PICKLE_NAMES):
        raise WeightsError(
            f"{shown} is a pickle, which can run code when it is read: convert its arrays with "
            "safetensors.numpy.save_file, as the guide to feature transfer shows under Weights"
        )
    raise WeightsError(
        f"{shown} is not a weights file (it begins with {head[:8]!r}); formats: torch, safetensors, .npz"
    )


def _read_torch(path: Path, *, mmap: bool = True) -> object:
    import torch  # an optional extra

    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        code = re.search(r"GLOBAL ([\w.]+)", str(error))
        if code is None:
            raise
        raise _CodeError(code[1]) from error


def _read_safetensors(path: Path) -> object:
    from safetensors.torch import load_file  # (imports torch, an optional extra)

    return load_file(path)


def _read_npz(path: Path) -> object:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


class _CodeError(Exception):
    """The file names a function or a class that is not part of a tensor."""


def _state_dict_in(content: object) -> object:
    """Find the state dict within a checkpoint: under the first known key, unless arrays lie beside it."""
    # A crafted file may nest endlessly.
    for _ in range(len(_NESTS)):
        if not isinstance(content, Mapping) or any(map(_is_array, content.values())):
            break
        nest = next((key for key in _NESTS if isinstance(content.get(key), Mapping)), None)
        if nest is None:
            break
        content = content[nest]
    return content


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, object]]:
    inside: Iterator[tuple[object, object]]
    if isinstance(value, Mapping):
        inside = iter(value.items())
    elif isinstance(value, list | tuple):
        inside = iter(enumerate(value))
    else:
        yield key, value
        return
    for name, entry in inside:
        yield from _leaves(entry, f"{key}.{name}" if key else str(name))


def _tensors(content: object, shown: str) -> Iterator[tuple[str, torch.Tensor]]:
    import torch  # an optional extra

    for key, value in _leaves(content):
        try:
            if isinstance(value, torch.Tensor):
                yield key, value.detach()
                continue
            if not isinstance(value, np.ndarray):
                raise TypeError(f"a {type(value).__name__}, not a tensor")  # noqa: TRY301  (one message for each cause)
            native = value.dtype.newbyteorder("=")
            yield key, torch.from_numpy(np.array(value, dtype=native, order="C"))
        except (TypeError, ValueError) as error:
            raise WeightsError(f"{shown}: {key or 'the content'} is not an array of numbers: {error}") from error


def _without_prefixes(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for prefix in _PREFIXES * 2:
        if all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): tensor for key, tensor in state.items()}
    return state
