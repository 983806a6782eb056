"""Stages of pipelines and of searches."""

from __future__ import annotations

from typing import Any

__all__ = ["stages_of"]

_SEARCHES = {"CrossValidatorModel", "TrainValidationSplitModel"}


def stages_of(model: Any) -> list[Any]:
    """Give the fitted stages in their order: of pipelines in pipelines, and of the best model of a search."""
    kind = type(model)
    if kind.__module__.partition(".")[0] != "pyspark":
        return [model]
    if kind.__name__ == "PipelineModel":
        return [inner for one in model.stages for inner in stages_of(one)]
    return stages_of(model.bestModel) if kind.__name__ in _SEARCHES else [model]
