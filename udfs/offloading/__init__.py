"""Tensors in files of a local disk, for models in training that are larger than memory."""

from udfs.offloading._disk_offload import DiskOffload

__all__ = ["DiskOffload"]
