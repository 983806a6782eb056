"""Compiled pipelines: tensor programs that predict what classical models predict (Hummingbird)."""

from vista_spark.compiling._compile import compile_pipeline
from vista_spark.compiling._compiled_pipeline import CompiledPipeline
from vista_spark.compiling._files import read_model
from vista_spark.compiling._registry import register
from vista_spark.compiling._replacement import replace_stages
from vista_spark.compiling._stage import TensorPipeline
from vista_spark.compiling._transfer import CompiledTransfer

__all__ = [
    "CompiledPipeline",
    "CompiledTransfer",
    "TensorPipeline",
    "compile_pipeline",
    "read_model",
    "register",
    "replace_stages",
]
