"""Compiled pipelines: the predictions of classical models by tensor programs (Hummingbird)."""

from ._compile import compile_pipeline
from ._compiled import CompiledPipeline
from ._files import read_model
from ._registry import register
from ._replace import replace_stages
from ._stage import TensorPipeline

__all__ = ["CompiledPipeline", "TensorPipeline", "compile_pipeline", "read_model", "register", "replace_stages"]
