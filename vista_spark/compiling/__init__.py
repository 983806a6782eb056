"""Compiled pipelines: the predictions of classical models by tensor programs (Hummingbird)."""

from ._compile import compile_pipeline
from ._compiled import CompiledPipeline
from ._files import read_model
from ._registry import register
from ._replace import replace_stages
from ._stage import TensorPipeline
from ._transfer import CompiledTransfer

__all__ = [
    "CompiledPipeline",
    "CompiledTransfer",
    "TensorPipeline",
    "compile_pipeline",
    "read_model",
    "register",
    "replace_stages",
]
