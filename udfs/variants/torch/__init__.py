"""Structural transformations of trained torch networks. Importing this imports torch.

Each transformation returns a new network and the :class:`udfs.variants.Structure` that describes it; the network that
it reads is not changed. :func:`apply_structure` makes a network of the same structure from a base network. The
variants are those of section 4.3.1 of Shen, *System for Serving Deep Neural Networks Efficiently* (MCDNN).
"""

from udfs.variants.torch._apply import apply_structure
from udfs.variants.torch._coarsen import coarsen
from udfs.variants.torch._factorize import factorize
from udfs.variants.torch._head import replace_head
from udfs.variants.torch._narrow import narrow
from udfs.variants.torch._onnx_export import to_onnx
from udfs.variants.torch._onnx_layer import OnnxLayer
from udfs.variants.torch._shorten import shorten
from udfs.variants.torch._storage import store
from udfs.variants.torch._training import fine_tune, scores, train_head

__all__ = [
    "OnnxLayer",
    "apply_structure",
    "coarsen",
    "factorize",
    "fine_tune",
    "narrow",
    "replace_head",
    "scores",
    "shorten",
    "store",
    "to_onnx",
    "train_head",
]
