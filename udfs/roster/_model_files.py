"""Networks in files of other libraries: programs of ``torch.export``, Keras archives and ONNX."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from udfs.tensors import TensorSpec
from udfs.weights import WeightsError, local_file

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["is_model_file", "model_name", "read_model_file"]

_WEIGHTS = frozenset({".pt", ".pth", ".bin", ".ckpt", ".safetensors", ".npz", ".npy"})
_SIDE = 224
_IMAGE_RANK = 4
_KINDS = "a .pt2 file of torch.export.save, a .keras file or an .onnx file"


def is_model_file(text: object) -> bool:
    """Return whether something names a file, by its ending or because there is one.

    Examples
    --------
    >>> is_model_file("nets/net.pt2"), is_model_file("resnet18")
    (True, False)
    """
    if not isinstance(text, str | os.PathLike):
        return False
    path = Path(os.fspath(text))
    return path.suffix.lower() in (_WEIGHTS | _READERS.keys()) or path.expanduser().is_file()


def model_name(text: str | os.PathLike[str]) -> str:
    """Return the name of a file without folder and ending, as a name of columns."""
    stem = Path(os.fspath(text)).stem
    return "".join(letter if letter.isalnum() else "_" for letter in stem) or "model"


def read_model_file(text: str | os.PathLike[str], image_size: int | None) -> Any:
    """Read a network, of the framework that the file is of. No code in the file is run, and no hub is asked.

    Parameters
    ----------
    text : str or path
        Path of a file of this machine, or the URI of one.
    image_size : int, optional
        Height and width of the images, in pixels, for an ONNX file that leaves them open. Default 224.

    Raises
    ------
    InvalidArgumentError
        There is no such file, it is not a network's, or it is damaged.
    ImportError
        The library that reads it is not installed.
    """
    shown = os.fspath(text)
    suffix = Path(shown).suffix.lower()
    if suffix in _WEIGHTS:
        raise InvalidArgumentError(
            f"model must be {_KINDS}, got the file {shown}, which has weights or code without a graph. Give the "
            f"network itself, and the file as weights={shown!r}"
        )
    if suffix not in _READERS:
        raise InvalidArgumentError(f"model must be {_KINDS}, got the file {shown}.")
    try:
        path = local_file(shown) if "://" in shown else Path(shown).expanduser()
    except WeightsError as error:
        raise InvalidArgumentError(f"model must be a file that can be read, got {shown}: {error}") from error
    if not path.is_file():
        raise InvalidArgumentError(
            f"model must be a file that exists, got the file {shown}. The working directory is {Path.cwd()}"
        )
    try:
        return _READERS[suffix](path, image_size)
    except ImportError:
        raise
    except Exception as error:
        # Each library fails on a damaged file in a way of its own.
        reason = str(error).strip().partition("\n")[0]
        raise InvalidArgumentError(
            f"model must be {_KINDS}, got the file {shown}, which cannot be read ({type(error).__name__}: {reason}). "
            "Load it with its own library, and give the network"
        ) from error


def _program(path: Path, image_size: int | None) -> Any:
    del image_size  # the program states its own
    from udfs.handlers.torch import load_program

    return load_program(path)


def _keras(path: Path, image_size: int | None) -> Any:
    del image_size
    from udfs.handlers.keras import FRAMEWORK  # sets what TensorFlow prints before Keras imports it

    del FRAMEWORK
    import keras

    return keras.models.load_model(path, compile=False, safe_mode=True)


def _onnx(path: Path, image_size: int | None) -> Any:
    try:
        import onnx
        import onnx2torch
    except ImportError as error:
        raise ImportError(f'{path} needs a converter to torch: pip install "cerebro-spark[onnx]" ({error})') from error
    from udfs.handlers.torch import exported

    graph = onnx.load(str(path)).graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [entry for entry in graph.input if entry.name not in constants]
    shapes = [[size.dim_value for size in entry.type.tensor_type.shape.dim] for entry in inputs]
    if len(shapes) != 1 or len(shapes[0]) != _IMAGE_RANK:
        raise InvalidArgumentError(f"it must read one image of (records, channels, height, width), got {shapes}")
    side = image_size or _SIDE
    channels, height, width = (size or usual for size, usual in zip(shapes[0][1:], (3, side, side), strict=True))
    return exported(onnx2torch.convert(str(path)).eval(), [TensorSpec((channels, height, width))])


_READERS: dict[str, Callable[[Path, int | None], Any]] = {
    ".pt2": _program,
    ".keras": _keras,
    ".h5": _keras,
    ".onnx": _onnx,
}
