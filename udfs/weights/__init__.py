"""Weights from files: located, fetched once a node, and read as data; nothing that a file says is executed."""

from udfs.weights._file import file_version
from udfs.weights._state_dict import SHIPPED, WeightsError, fit_state_dict, local_file, read_state_dict

__all__ = [
    "SHIPPED",
    "WeightsError",
    "file_version",
    "fit_state_dict",
    "local_file",
    "read_state_dict",
]
