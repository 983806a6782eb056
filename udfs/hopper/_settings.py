"""Settings of a worker, which it receives from the driver when its job has started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from udfs.handlers import registered_frameworks

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.handlers import Framework
    from udfs.hopper._adaptation import AdaptationSettings
    from udfs.shards import PreparedData
    from udfs.training import Folds, TaskDecision

__all__ = ["WorkerSettings"]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of one worker of a run."""

    worker: str  # name in the run; a later attempt of the same name takes its place
    run: str
    trainer_fn: Callable[[dict[str, Any]], Any]
    # Params of some configuration. The worker builds it once before it asks for work, so that the framework is imported
    # by then.
    sample: dict[str, Any]
    prepared: PreparedData
    partitions: tuple[int, ...]  # shards of the training data that this worker holds at first
    seed: int
    threads: int  # CPU threads of one unit
    # For shards and for checkpoints, half each; above it shards are mapped from the node's disk. A quarter of the
    # machine's memory by default.
    memory_bytes: int | None = None
    device: str = "cpu"  # "cpu" (default), "cuda" or "auto"
    # Settings of a run that trains on outputs of frozen layers. Default None: each trial trains its whole model.
    adaptation: AdaptationSettings | None = None
    # Folds of the rows, of which each trial leaves one out. Default None: trials train on all rows.
    folds: Folds | None = None
    # Whether the trials of a unit train as a stack where this is faster. Default False: one after the other.
    stacks: bool = False
    # Task of the run's first configuration. Default None: the rows that a configuration evaluates decide.
    task: TaskDecision | None = None
    # Direction of the metric of the search, for schedulers that follow it. Default None: unknown.
    larger_is_better: bool | None = None
    # Names of the frameworks to import before the user's function runs. Default: none.
    frameworks: tuple[str, ...] = ()
    # Settings of the process that importing the user's modules has changed here. Default: none.
    process: dict[str, dict[str, Any]] = field(default_factory=dict)
    # Frameworks that the driver registered by hand, for the worker to register too.
    registered: tuple[Framework, ...] = field(default_factory=registered_frameworks)

    def packed(self) -> bytes:
        """Pickle them, as Spark pickles a function: the user's goes to machines that do not have its module."""
        content: bytes = cloudpickle.dumps(self)  # type: ignore[no-untyped-call]
        return content

    @staticmethod
    def unpacked(content: bytes) -> WorkerSettings:
        """Load what :meth:`packed` made; of the run's own driver alone, for a pickle runs code."""
        settings = cloudpickle.loads(content)
        assert isinstance(settings, WorkerSettings)  # the driver made them
        return settings
