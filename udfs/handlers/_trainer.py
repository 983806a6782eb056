"""``ModelTrainer``: what a user's function makes for a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from udfs.handlers._registry import framework, framework_of, frameworks
from udfs.metrics import Metric, metric
from udfs.offloading import DiskOffload
from udfs.training import Task, TrainerError, check_phases, check_view

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from udfs.handlers._framework import Framework
    from udfs.training import RowView

__all__ = ["ModelTrainer", "trainer_framework"]


@dataclass(frozen=True, kw_only=True)
class ModelTrainer:
    """A model with all that training it by SGD takes.

    Parameters
    ----------
    model : torch.nn.Module, keras.Model or a model of another registered framework
        Torch module, called with one tensor per input; Keras model, built or with an input shape.
    optimizer : torch.optim.Optimizer or keras.optimizers.Optimizer
        Torch optimizer over the model's parameters; Keras optimizer or its name.
    loss : callable or str
        Function of outputs and labels to the mean over the batch (``torch.nn.CrossEntropyLoss()``); in Keras also its
        name. A sequence with one each where the network has several outputs; their sum is minimised.
    metrics : sequence of str, Metric, callable or metric object
        Metrics beside the loss, as :func:`cerebro_spark.metric` takes them; names are those of
        :data:`udfs.metrics.METRICS`.
    task : Task or str, optional
        Meaning of labels and outputs, such as ``Task("binary", labels="-1/+1", outputs="margins")``, see
        :class:`cerebro_spark.Task`, or its kind. By default it is decided by the loss, the end of the network and a few
        rows.
    batch_size : int
        Rows of a step. Default 32.
    drop_last : bool
        Whether a short last batch of a shard is left out of training. Default false.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        Scheduler of the learning rate, for torch; Keras has it within its optimizer.
    scheduler_step : {"epoch", "batch"}
        Interval of the scheduler's steps: all shards of an epoch (default), or every batch.
    epochs : int, optional
        Passes over the data, for an :class:`cerebro_spark.Adaptation` that trains a grid; a search has its own number.
    freeze_until : mapping of int to str or None, optional
        Freezing schedule: from an epoch on (the first is 0), all up to and including a module does not learn;
        ``None`` freezes nothing. ``{0: "encoder.layer.5", 2: "encoder.layer.3"}`` is gradual unfreezing,
        ``{2: "features.4"}`` progressive freezing. The model and its optimizer are built with all that learns in any
        phase. A Keras layer goes by its name, one within a model by ``"base/block_3"``; on TensorFlow alone.
    view : RowView, optional
        Rows of the shards as this configuration reads them, such as ``InputColumns(["conv5"])`` or ``Windows(100)``. By
        default the network reads all inputs of each row.
    offload : DiskOffload, optional
        Parameters and optimizer state in files of a local disk, and activations computed again, for a torch model that
        is larger than memory. By default all are in memory.

    Raises
    ------
    TrainerError
        No framework recognises the model, or a size or a word is not allowed; its framework has no freezing schedules,
        or does not train models larger than memory.
    MetricError
        A metric has an unknown name.
    InvalidArgumentError
        ``task`` is the name of no kind.

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Linear(3, 2)
    >>> trainer = ModelTrainer(
    ...     model=net,
    ...     optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
    ...     loss=torch.nn.CrossEntropyLoss(),
    ...     metrics=["accuracy"],
    ...     batch_size=64,
    ... )
    >>> trainer.framework
    'torch'
    """

    model: Any
    optimizer: Any
    loss: Any
    metrics: Sequence[str | Metric | Callable[..., Any]] = ()
    batch_size: int = 32
    drop_last: bool = False
    task: Task | str | None = None
    scheduler: Any = None
    scheduler_step: Literal["epoch", "batch"] = "epoch"
    epochs: int | None = None
    freeze_until: Mapping[int, str | None] = field(default_factory=dict)
    view: RowView | None = None
    offload: DiskOffload | None = None

    def __post_init__(self) -> None:
        if self.framework is None:
            raise TrainerError(
                f"model is a {type(self.model).__module__}.{type(self.model).__qualname__}: "
                "give a torch.nn.Module or a keras.Model, or a model of a registered framework "
                f"(there are: {', '.join(frameworks())})"
            )
        if self.batch_size < 1:
            raise TrainerError(f"batch_size must be at least 1, got {self.batch_size}")
        if self.epochs is not None and self.epochs < 1:
            raise TrainerError(f"epochs must be at least 1, got {self.epochs}")
        if self.scheduler_step not in {"epoch", "batch"}:
            raise TrainerError(f"scheduler_step must be 'epoch' or 'batch', got {self.scheduler_step!r}")
        if self.scheduler_step == "batch" and self.scheduler is None:
            raise TrainerError(
                "scheduler must be set with scheduler_step='batch', which has no effect without one, got None."
            )
        check_phases(self.freeze_until, self.epochs)
        check_view(self.view)
        if self.freeze_until and not trainer_framework(self).freezing_schedules:
            raise TrainerError(
                f"freeze_until must be empty for {self.framework}, which has no freezing schedules: "
                "train the phases one after the other, each "
                "with layers frozen from the start, or write the model in torch"
            )
        _check_offload(self.offload, trainer_framework(self))
        if isinstance(self.task, str):
            Task(self.task)  # type: ignore[arg-type] # a word of the user's, which this checks
        elif not (self.task is None or isinstance(self.task, Task)):
            raise TrainerError(f"task must be a Task or the name of a kind, got {self.task!r}.")
        names = ["loss", *(metric(wanted).name for wanted in self.metrics)]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise TrainerError(f"metrics must have different names, and none 'loss', got {twice!r} twice.")

    @property
    def framework(self) -> str | None:
        """Name of the framework that the model belongs to: ``"torch"``, ``"keras"`` or another; ``None`` of none."""
        backend = framework_of(self.model)
        return None if backend is None else backend.name


def _check_offload(offload: object, backend: Framework) -> None:
    if offload is None:
        return
    if not isinstance(offload, DiskOffload):
        raise TrainerError(f"offload must be a DiskOffload, got {offload!r}. Write offload=DiskOffload().")
    if not backend.disk_offload:
        raise TrainerError(f"offload must be None for {backend.name}, which trains in memory. Write the model in torch")


def trainer_framework(trainer: ModelTrainer) -> Framework:
    """Find the framework that trains a trainer's model."""
    return framework(str(trainer.framework))
