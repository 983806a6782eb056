"""Programs as ONNX models: standard operators alone, one function for each operator. Importing this imports onnx."""

from udfs.compiling.onnx._program import model_of
from udfs.compiling.onnx._runtime import RuntimeEngine

__all__ = ["RuntimeEngine", "model_of"]
