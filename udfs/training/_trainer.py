"""``ModelTrainer``: what a user's function makes of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from optimizer.errors import CerebroError
from udfs.training._metrics import Metric, metric

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["ModelTrainer", "TrainerError"]


class TrainerError(CerebroError, ValueError):
    """A trainer that cannot be trained; the message says what is wrong with it."""


@dataclass(frozen=True, kw_only=True)
class ModelTrainer:
    """A model with all that training it by SGD takes.

    Parameters
    ----------
    model : torch.nn.Module or keras.Model
        Of torch, called with one tensor an input; of Keras, built or with an input shape.
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

    Raises
    ------
    TrainerError
        Neither framework's model, or a size or a word that cannot be.
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

    def __post_init__(self) -> None:
        if self.framework is None:
            raise TrainerError(
                f"model is a {type(self.model).__module__}.{type(self.model).__qualname__}: "
                "give a torch.nn.Module or a keras.Model"
            )
        if self.batch_size < 1:
            raise TrainerError(f"batch_size={self.batch_size}: at least 1")
        if self.scheduler_step not in {"epoch", "batch"}:
            raise TrainerError(f'scheduler_step={self.scheduler_step!r}: "epoch" or "batch"')
        if self.scheduler is not None and self.framework == "keras":
            raise TrainerError("scheduler is of torch: Keras takes a LearningRateSchedule as its optimizer's rate")
        for wanted in self.metrics:
            metric(wanted)

    @property
    def framework(self) -> str | None:
        """``"torch"`` or ``"keras"``."""
        bases = {f"{base.__module__}.{base.__qualname__}" for base in type(self.model).__mro__}
        if "torch.nn.modules.module.Module" in bases:
            return "torch"
        return "keras" if any(name.startswith("keras.") and name.endswith(".Model") for name in bases) else None
