"""Model of a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import TaskContext

from udfs.inference import open_model
from udfs.node import keep_freed_memory, task_device

if TYPE_CHECKING:
    from udfs.inference import ModelSource

__all__ = ["task_model"]


def task_model(source: ModelSource, device: str) -> Any:
    """Open a model with the task's threads on a device; ``"auto"`` is the device that the task was assigned."""
    context = TaskContext.get()
    if context:
        keep_freed_memory()  # the process is a Spark worker's, which does nothing else
    return open_model(source, task_device(device), context.cpus() if context else 1)
