"""The three functions of the paper's interface, for what :class:`ModelTrainer` cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from udfs.shards import Tensors
    from udfs.training._task import Task

__all__ = ["TrainingFunctions"]


@dataclass(frozen=True)
class TrainingFunctions:
    """A model that the user trains: ``input_fn``, ``model_fn``, ``train_fn`` (Cerebro, Figures A.5 to A.7).

    Parameters
    ----------
    model_fn : callable
        Takes a configuration's params, gives ``(model, optimizer)`` of a framework. A model that it puts on an
        accelerator stays there; others go to the device of the run.
    train_fn : callable
        Takes ``(data, model, optimizer, params)``; makes one pass over the data and gives a mapping of names to means
        over its rows, ``"loss"`` among them. During validation the parameters do not require gradients (torch), or are
        not trainable (Keras), and it must not take a step then.
    input_fn : callable, optional
        Takes the shard's tensors and gives what ``train_fn`` takes as data, once a shard and worker.
    uses_weights : bool
        Whether the functions use the weights of the rows, which are in the tensors' ``weights``: the means that
        ``train_fn`` gives are then weighted ones. Default false: data with weights are refused.
    task : Task or str, optional
        Meaning of labels and outputs, see :class:`cerebro_spark.Task`, or its kind, for the predictions of
        ``best_model``. By default it is decided by the end of the network and a few rows.

    Examples
    --------
    >>> functions = TrainingFunctions(model_fn=lambda params: ..., train_fn=lambda data, model, optimizer, params: ...)
    >>> functions.input_fn is None
    True
    """

    model_fn: Callable[[Mapping[str, Any]], tuple[Any, Any]]
    train_fn: Callable[[Any, Any, Any, Mapping[str, Any]], Mapping[str, float]]
    input_fn: Callable[[Tensors], Any] | None = None
    uses_weights: bool = False
    task: Task | str | None = None
