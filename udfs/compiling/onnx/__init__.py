"""Programs as ONNX models: standard operators alone, one function for each operator. Importing this imports onnx."""

from ._program import model_of

__all__ = ["model_of"]
