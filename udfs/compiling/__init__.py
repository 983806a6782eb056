"""Run compiled pipelines: operators as tensor modules, and what a Spark worker does with them (Hummingbird)."""

from ._archive import from_bytes, to_bytes
from ._scoring import PipelineScoring

__all__ = ["PipelineScoring", "from_bytes", "to_bytes"]
