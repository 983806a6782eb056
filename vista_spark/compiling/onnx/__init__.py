"""ONNX models, ONNX-ML's operators and ONNX's own; importing this registers them. Imports no onnx."""

from vista_spark.compiling.onnx import _arithmetic, _linear, _ranks, _scaling, _shapes, _support, _texts, _trees
from vista_spark.compiling.onnx._nodes import lowered_operators
from vista_spark.compiling.onnx._program import opened, program_of

__all__ = [
    "_arithmetic",
    "_linear",
    "_ranks",
    "_scaling",
    "_shapes",
    "_support",
    "_texts",
    "_trees",
    "lowered_operators",
    "opened",
    "program_of",
]
