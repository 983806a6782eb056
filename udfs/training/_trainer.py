"""``ModelTrainer``: what a user's function makes for a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from udfs.handlers import framework, framework_of, frameworks
from udfs.metrics import Metric, metric
from udfs.training._errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from udfs.handlers import Framework

__all__ = ["ModelTrainer", "trainer_framework"]


@dataclass(frozen=True, kw_only=True)
class ModelTrainer:
    """A model with all that training it by SGD takes.

    Parameters
    ----------
    model : torch.nn.Module, keras.Model or a model of another registered framework
        Of torch, called with one tensor per input; of Keras, built or with an input shape.
    optimizer : torch.optim.Optimizer or keras.optimizers.Optimizer
        Of torch, over the model's parameters; of Keras also by name.
    loss : callable or str
        Of torch, a function of outputs and labels to the mean over the batch (``torch.nn.CrossEntropyLoss()``); of
        Keras also by name. A sequence with one each where the network has several outputs; their sum is minimised.
    metrics : sequence of str, Metric or callable
        Beside the loss; names are those of :data:`udfs.training.METRICS`.
    batch_size : int
        Rows of a step. Default 32.
    scheduler : torch.optim.lr_scheduler.LRScheduler, optional
        Of the learning rate; Keras has it within its optimizer.
    scheduler_step : {"epoch", "batch"}
        After what the scheduler takes its step: all shards of an epoch (default), or every batch.
    epochs : int, optional
        Passes over the data, for an :class:`cerebro_spark.Adaptation` that trains a grid; a search says it itself.

    Raises
    ------
    TrainerError
        No framework recognises the model, or a size or a word is not allowed.
    MetricError
        No such metric.

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
    scheduler: Any = None
    scheduler_step: Literal["epoch", "batch"] = "epoch"
    epochs: int | None = None

    def __post_init__(self) -> None:
        if self.framework is None:
            raise TrainerError(
                f"model is a {type(self.model).__module__}.{type(self.model).__qualname__}: "
                "give a torch.nn.Module or a keras.Model, or a model of a registered framework "
                f"(there are: {', '.join(frameworks())})"
            )
        if self.batch_size < 1:
            raise TrainerError(f"batch_size={self.batch_size}: at least 1")
        if self.epochs is not None and self.epochs < 1:
            raise TrainerError(f"epochs={self.epochs}: at least 1")
        if self.scheduler_step not in {"epoch", "batch"}:
            raise TrainerError(f'scheduler_step={self.scheduler_step!r}: "epoch" or "batch"')
        for wanted in self.metrics:
            metric(wanted)

    @property
    def framework(self) -> str | None:
        """Name of the framework that the model belongs to: ``"torch"``, ``"keras"`` or another; ``None`` of none."""
        own = framework_of(self.model)
        return None if own is None else own.name


def trainer_framework(trainer: ModelTrainer) -> Framework:
    """Find the framework that trains a trainer's model."""
    return framework(str(trainer.framework))
