"""HDF5 files that stay within themselves: no link and no array leads to another file."""

from __future__ import annotations

from typing import Any

from udfs.weights._file import WeightsError

__all__ = ["check_hdf5"]

_DEEPEST = 64


def check_hdf5(group: Any, shown: str, *, depth: int = 0) -> None:
    """Check that a file's arrays are its own: an HDF5 link, an array's storage and a virtual array may name any file.

    Raise WeightsError if something in it is read from elsewhere, or its groups are nested without end. ``depth`` is
    that of the group in its file.
    """
    import h5py  # comes with Keras

    if depth > _DEEPEST:
        raise WeightsError(f"{shown}: its groups are nested more than {_DEEPEST} deep")
    for name in group:
        link = group.get(name, getlink=True)
        if not isinstance(link, h5py.HardLink):
            raise WeightsError(f"{shown}: {group.name}/{name} is a link to elsewhere ({link.path!r}), not an array")
        entry = group[name]
        if isinstance(entry, h5py.Group):
            check_hdf5(entry, shown, depth=depth + 1)
        elif isinstance(entry, h5py.Dataset) and (entry.external or entry.is_virtual):
            raise WeightsError(f"{shown}: the array {entry.name} is read from other files")
