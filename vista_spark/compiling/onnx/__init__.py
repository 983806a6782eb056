"""Parsers of ONNX models and their operators. Importing the package registers them, and does not import onnx."""

from vista_spark.compiling.onnx import _arithmetic, _featurizers, _linear, _neighbors, _shapes, _trees
from vista_spark.compiling.onnx._program import program_of

__all__ = [
    "_arithmetic",
    "_featurizers",
    "_linear",
    "_neighbors",
    "_shapes",
    "_trees",
    "program_of",
]
