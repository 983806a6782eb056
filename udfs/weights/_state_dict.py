"""Weights from wherever they lie into a state dict, read as data: nothing that a file says is executed."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from udfs.weights._file import SHIPPED, WeightsError, local_file, redacted

if TYPE_CHECKING:
    import io
    import os
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import torch
    from torch import nn

__all__ = ["SHIPPED", "WeightsError", "fit_state_dict", "local_file", "read_state_dict"]

_NESTS = ("state_dict", "model_state_dict", "model", "module", "net")
_PREFIXES = ("module.", "_orig_mod.")
_SHOWN = 8


def read_state_dict(uri: str | os.PathLike[str]) -> dict[str, torch.Tensor]:
    """Read named tensors from a file, deciding its format by its content.

    Formats: torch's zip files (memory-mapped) and its older ones, safetensors (memory-mapped), numpy's ``.npz``, and
    pickles of numpy arrays in dicts and lists, where the place in the nesting becomes the key: ``"fire2.0"``.
    Checkpoints that hold the state dict under ``"state_dict"``, ``"model_state_dict"``, ``"model"``, ``"module"`` or
    ``"net"`` are opened, and a ``module.`` or ``_orig_mod.`` that begins every key is cut off.

    Parameters
    ----------
    uri : str or path
        A local path, or a URI of a file system that pyarrow knows: ``file://``, ``hdfs://``, ``s3://``, ``gs://``,
        ``abfs://``. A remote file is copied once to each node, into the folder that the environment variable
        ``CEREBRO_SPARK_CACHE`` names, and again when its size or its modification time changes. On a worker also
        ``sparkfile:NAME``, a file that the session was given by ``addArtifacts(path, file=True)``.

    Returns
    -------
    dict of str to torch.Tensor
        On the CPU, shapes and element types as stored. A memory-mapped tensor is paged in as it is touched and shares
        its pages with every other process of the node that reads the file, so the file must not be rewritten in place.

    Raises
    ------
    WeightsError
        No such file, an unknown or damaged format, a file that asks for code to be run (the message names it), or no
        tensors in it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/w.npz", **{"fc.weight": np.ones((2, 3), "float32")})
    ...     read_state_dict(f"file://{folder}/w.npz")["fc.weight"].shape
    torch.Size([2, 3])
    """
    shown, path = redacted(uri), local_file(uri)
    try:
        state = dict(_tensors(_opened(_reader(path, shown)(path)), shown))
    except WeightsError:
        raise
    except _Refused as refused:
        raise WeightsError(
            f"{shown} asks to run {refused}: it is more than arrays, and no code of a weights file is executed. "
            "Save the state dict alone (torch.save(model.state_dict(), ...), or safetensors)"
        ) from refused
    except Exception as error:
        # A damaged file fails inside a foreign parser, in whichever way that parser happens to fail.
        raise WeightsError(f"{shown} cannot be read, it may be damaged: {type(error).__name__}: {error}") from error
    if not state:
        raise WeightsError(f"{shown} holds no tensors")
    return _without_prefixes(state)


def fit_state_dict(module: nn.Module, state: Mapping[str, torch.Tensor], name: str) -> None:
    """Give a module its weights, all of them and no others.

    The tensors are assigned, not copied, so memory-mapped ones stay mapped and a module on the meta device becomes
    real. A tensor of another element type than the module's is converted, which copies it. ``num_batches_tracked`` of a
    batch normalisation may be missing, as it is in weights from before torch 0.4.1: inference does not use it.

    Parameters
    ----------
    module : torch.nn.Module
        Changed in place.
    state : mapping of str to torch.Tensor
        The weights.
    name : str
        What the module is called, for the message.

    Raises
    ------
    WeightsError
        Keys are missing or unexpected, or shapes differ. The message lists them and the module is untouched.

    Examples
    --------
    >>> import torch
    >>> linear = torch.nn.Linear(2, 1)
    >>> fit_state_dict(linear, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}, "linear")
    >>> linear(torch.ones(1, 2)).item()
    2.0
    """
    import torch  # noqa: PLC0415  (an optional extra)

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
    if head.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
        return _read_npz if all(member.endswith(".npy") for member in members) else _read_torch
    if b"\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." in head:
        return _read_legacy_torch
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= path.stat().st_size - 8:
        return _read_safetensors
    if head.startswith((b"\x80", b"(", b"}", b"]")):
        return _read_pickle
    raise WeightsError(
        f"{shown} is no weights file (it begins with {head[:8]!r}); "
        "formats: torch, safetensors, .npz, pickled numpy arrays"
    )


def _read_torch(path: Path, *, mmap: bool = True) -> object:
    import torch  # noqa: PLC0415  (an optional extra)

    try:
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    except pickle.UnpicklingError as error:
        named = re.search(r"GLOBAL ([\w.]+)", str(error))
        if named is None:
            raise
        raise _Refused(named[1]) from error


def _read_legacy_torch(path: Path) -> object:
    return _read_torch(path, mmap=False)


def _read_safetensors(path: Path) -> object:
    from safetensors.torch import load_file  # noqa: PLC0415  (imports torch, an optional extra)

    return load_file(path)


def _read_npz(path: Path) -> object:
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}


def _read_pickle(path: Path) -> object:
    with path.open("rb") as file:
        return _ArraysOnly(file).load()


class _Refused(Exception):  # noqa: N818  (a signal within this module)
    """The file names something that is not a part of an array."""


class _DType:
    """Stands in for ``numpy.dtype`` while unpickling: it records, and only a plain number type comes of it."""

    def __init__(self, kind: object, *_flags: object) -> None:
        self.kind = str(kind)
        self.order: Literal["<", ">", "="] = "="

    def __setstate__(self, state: tuple[object, ...]) -> None:
        self.order = "<" if state[1] == "<" else ">" if state[1] == ">" else "="

    def resolve(self) -> np.dtype[Any]:
        if not re.fullmatch(r"[fiubc]\d{1,2}", self.kind):
            raise _Refused(f"numpy.dtype({self.kind!r})")
        return np.dtype(self.kind).newbyteorder(self.order)


class _Array:
    """Stands in for ``numpy.ndarray`` while unpickling: it records, and numpy sees checked bytes and a shape."""

    def __init__(self) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def resolve(self) -> np.ndarray[Any, Any]:
        shape, dtype, fortran, raw = self.state[-4:]
        # Protocol 2 and Python 2 write the bytes as text.
        buffer = raw.encode("latin1") if isinstance(raw, str) else raw
        if not isinstance(dtype, _DType) or not isinstance(buffer, bytes | bytearray):
            raise _Refused("numpy.ndarray of objects")
        return np.frombuffer(buffer, dtype.resolve()).reshape(shape, order="F" if fortran else "C")


def _new_array(*_arguments: object) -> _Array:
    return _Array()


def _from_buffer(buffer: object, dtype: object, shape: object, order: object) -> _Array:
    array = _Array()
    array.state = (shape, dtype, order == "F", buffer)
    return array


def _scalar(dtype: object, buffer: object) -> _Array:
    return _from_buffer(buffer, dtype, (), "C")


def _encode(text: object, _encoding: object) -> bytes:
    return str(text).encode("latin1")


def _no_bytes() -> bytes:
    return b""


def _harmless() -> dict[tuple[str, str], object]:
    harmless: dict[tuple[str, str], object] = {
        ("collections", "OrderedDict"): OrderedDict,
        ("_codecs", "encode"): _encode,
        # Empty bytes, in the protocols that have no bytes.
        ("__builtin__", "bytes"): _no_bytes,
        ("builtins", "bytes"): _no_bytes,
        ("numpy", "ndarray"): _new_array,
        ("numpy", "dtype"): _DType,
    }
    for core in ("numpy.core", "numpy._core"):
        harmless[f"{core}.multiarray", "_reconstruct"] = _new_array
        harmless[f"{core}.multiarray", "scalar"] = _scalar
        harmless[f"{core}.numeric", "_frombuffer"] = _from_buffer
    return harmless


class _ArraysOnly(pickle.Unpickler):
    """An unpickler that knows arrays and nothing else; even numpy's own constructors are replaced by recorders."""

    _KNOWN = _harmless()

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(file, encoding="latin1")

    def find_class(self, module: str, name: str) -> object:
        try:
            return self._KNOWN[module, name]
        except KeyError:
            raise _Refused(f"{module}.{name}") from None


class _Leaf(NamedTuple):
    key: str
    value: object


def _opened(raw: object) -> object:
    """Find the state dict within a checkpoint: the first known nest, unless arrays lie beside it."""
    # A crafted file may nest without an end.
    for _ in range(len(_NESTS)):
        if not isinstance(raw, Mapping) or any(map(_is_array, raw.values())):
            break
        nest = next((key for key in _NESTS if isinstance(raw.get(key), Mapping)), None)
        if nest is None:
            break
        raw = raw[nest]
    return raw


def _is_array(value: object) -> bool:
    return isinstance(value, np.ndarray | _Array) or hasattr(value, "detach")


def _leaves(value: object, key: str = "") -> Iterator[_Leaf]:
    inside: Iterator[tuple[object, object]]
    if isinstance(value, Mapping):
        inside = iter(value.items())
    elif isinstance(value, list | tuple):
        inside = iter(enumerate(value))
    else:
        yield _Leaf(key, value)
        return
    for name, entry in inside:
        yield from _leaves(entry, f"{key}.{name}" if key else str(name))


def _tensors(raw: object, shown: str) -> Iterator[tuple[str, torch.Tensor]]:
    import torch  # noqa: PLC0415  (an optional extra)

    for key, value in _leaves(raw):
        try:
            if isinstance(value, torch.Tensor):
                yield key, value.detach()
                continue
            array = value.resolve() if isinstance(value, _Array) else value
            if not isinstance(array, np.ndarray):
                raise TypeError(f"a {type(value).__name__}, not a tensor")  # noqa: TRY301  (one message for each cause)
            native = array.dtype.newbyteorder("=")
            yield key, torch.from_numpy(np.array(array, dtype=native, order="C"))
        except (TypeError, ValueError, _Refused) as error:
            raise WeightsError(f"{shown}: {key or 'the content'} is not an array of numbers: {error}") from error


def _without_prefixes(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    for prefix in _PREFIXES * 2:
        if all(key.startswith(prefix) for key in state):
            state = {key.removeprefix(prefix): tensor for key, tensor in state.items()}
    return state
