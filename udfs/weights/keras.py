"""Read weights of Keras models from files: arrays only, no layer or function of a file is built or run."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from udfs.weights._file import WeightsError, local_file, redacted
from udfs.weights._hdf5 import check_hdf5

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

__all__ = ["fit_weights"]

_HDF5 = b"\x89HDF\r\n\x1a\n"
_ZIP = b"PK"
_SHOWN = 8

Shapes = dict[str, tuple[int, ...]]


def fit_weights(model: Any, uri: str | os.PathLike[str], name: str) -> None:
    """Load the weights of a file into a built Keras model, exactly its own.

    The content decides the format: ``.keras`` archives, of which only the weights are read, ``.weights.h5`` files, and
    the older ``.h5`` files, of weights alone or of whole models. Arrays of the older ones are matched by the order of
    the layers, as Keras does it, since it numbers layers anew in each process. For the URIs see
    :func:`udfs.weights.read_state_dict`. Raise WeightsError, which lists what is missing, unexpected or of another
    shape, if the file cannot be read or its weights do not fit; the weights of the model are then undefined.

    Examples
    --------
    >>> import tempfile
    >>> from udfs.handlers import framework
    >>> _ = framework("keras")  # imports Keras, quietly
    >>> import keras
    >>> one = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one.save_weights(f"{folder}/one.weights.h5")
    ...     fit_weights(other, f"{folder}/one.weights.h5", "other")
    >>> bool((one.get_weights()[0] == other.get_weights()[0]).all())
    True
    """
    path = local_file(uri)
    suffix = _suffix(path, uri)
    with tempfile.TemporaryDirectory() as folder:
        # Keras reads the format off the suffix, and a file that was fetched or shipped has none.
        link = Path(folder) / f"weights{suffix}"
        link.symlink_to(path.resolve())
        try:
            stored = _stored(link, redacted(uri))
            model.load_weights(str(link))
        except WeightsError:
            raise
        except Exception as error:
            # A damaged file fails inside a foreign parser, in whichever way that parser happens to fail.
            facts = _differences(model, link, Path(folder))
            reason = f"the weights do not fit {name}: {facts}" if facts else f"{uri} cannot be read, it may be damaged"
            raise WeightsError(f"{reason} ({type(error).__name__}: {str(error).partition(chr(10))[0]})") from error
        if len(stored) > len(model.variables):
            counts = f"{len(stored)} arrays for {len(model.variables)} variables"
            facts = _differences(model, link, Path(folder)) or counts
            raise WeightsError(f"the weights do not fit {name}: {facts}")


def _suffix(path: Path, uri: str | os.PathLike[str]) -> str:
    with path.open("rb") as file:
        head = file.read(len(_HDF5))
    if head == _HDF5:
        return ".h5" if _is_old(path) else ".weights.h5"
    if head.startswith(_ZIP) and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "model.weights.h5" in archive.namelist():
                return ".keras"
    raise WeightsError(
        f"{uri} is not a weights file of Keras (it begins with {head!r}); formats: .weights.h5, .h5, .keras. "
        "Save one with model.save_weights('name.weights.h5')"
    )


def _is_old(path: Path) -> bool:
    import h5py  # (comes with Keras, an optional extra)

    try:
        with h5py.File(path, "r") as file:
            return "layer_names" in file.attrs or "model_weights" in file
    except OSError as error:
        raise WeightsError(f"{path} cannot be read, it may be damaged: {error}") from error


def _stored(path: Path, shown: str) -> Shapes:
    """Read the shapes of a file's arrays by name, without those of an optimizer."""
    import h5py

    shapes: Shapes = {}

    def see(name: str, entry: Any) -> None:
        if isinstance(entry, h5py.Dataset) and not name.startswith("optimizer"):
            shapes[name] = tuple(entry.shape)

    if path.suffix == ".keras":
        with zipfile.ZipFile(path) as archive, archive.open("model.weights.h5") as inner, h5py.File(inner, "r") as file:
            check_hdf5(file, shown)
            file.visititems(see)
        return shapes
    with h5py.File(path, "r") as file:
        check_hdf5(file, shown)
        file.get("model_weights", file).visititems(see)
    return shapes


def _differences(model: Any, path: Path, folder: Path) -> str:
    """Describe what is missing, unexpected or of another shape in a file; empty where that cannot be told."""
    try:
        stored = _stored(path, path.name)
        if path.suffix == ".h5" and not path.name.endswith(".weights.h5"):
            weighted = [layer.weights for layer in model.layers if layer.weights]
            expected = _by_place([[tuple(variable.shape) for variable in weights] for weights in weighted])
            stored = _stored_by_place(path)
        else:
            reference = folder / "expected.weights.h5"
            model.save_weights(reference)
            expected = _stored(reference, reference.name)
    except (OSError, KeyError, ValueError):
        return ""
    faults = [
        _fault("missing", (f"{key} {shape}" for key, shape in expected.items() if key not in stored)),
        _fault("unexpected", (f"{key} {shape}" for key, shape in stored.items() if key not in expected)),
        _fault(
            "of another shape",
            (
                f"{key} is {stored[key]} where the model has {shape}"
                for key, shape in expected.items()
                if key in stored and stored[key] != shape
            ),
        ),
    ]
    return "; ".join(filter(None, faults))


def _stored_by_place(path: Path) -> Shapes:
    """Read the shapes of an older file's arrays by the place of their layer, as Keras matches them."""
    import h5py

    with h5py.File(path, "r") as file:
        group = file.get("model_weights", file)
        layers = [group[name] for name in group.attrs["layer_names"]]
        shapes = [[tuple(layer[name].shape) for name in layer.attrs["weight_names"]] for layer in layers]
    return _by_place([entries for entries in shapes if entries])


def _by_place(shapes: list[list[tuple[int, ...]]]) -> Shapes:
    return {f"layer {i} weight {j}": shape for i, entries in enumerate(shapes) for j, shape in enumerate(entries)}


def _fault(kind: str, entries: Iterable[str]) -> str:
    listed = list(entries)
    rest = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return f"{len(listed)} {kind}: {', '.join(listed[:_SHOWN])}{rest}" if listed else ""
