"""Weights from files: located, fetched once per node, and read as data; no code of a file is executed."""

from udfs.weights._file import FOLDER_WEIGHTS, SHIPPED, WeightsError, file_version, local_file, redacted
from udfs.weights._hdf5 import check_hdf5
from udfs.weights._state_dict import fit_state_dict, read_state_dict

__all__ = [
    "FOLDER_WEIGHTS",
    "SHIPPED",
    "WeightsError",
    "check_hdf5",
    "file_version",
    "fit_state_dict",
    "local_file",
    "read_state_dict",
    "redacted",
]
