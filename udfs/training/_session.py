"""A configuration in training, whatever its framework: what is trained, and the session that trains it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.training._task import Task
    from udfs.training._task_decision import Ending
    from udfs.training._task_sums import TaskSums

__all__ = ["BatchWeights", "Rows", "Session", "Trainer"]


class Rows(Protocol):
    """Rows of a shard as arrays, ``(rows, ...)`` each; :class:`udfs.shards.Tensors` is one."""

    @property
    def inputs(self) -> tuple[NDArray[Any], ...]:
        """Arrays of the inputs, one per input of the network."""

    @property
    def labels(self) -> tuple[NDArray[Any], ...]:
        """Arrays of the labels."""

    @property
    def rows(self) -> int:
        """Number of rows."""

    @property
    def weights(self) -> NDArray[np.float32] | None:
        """Weights of the rows, of shape ``(rows,)`` and more than 0; ``None`` where all count alike."""


@dataclass(frozen=True, slots=True)
class BatchWeights:
    """Weights of the rows of a batch; :func:`udfs.training.batch_weights` makes them.

    Parameters
    ----------
    total : float
        Sum of the weights; the number of rows if they have no weights.
    own : array of float32, shape (rows,), or None
        Weights in the data; ``None`` if the rows have no weights.
    relative : array of float32, shape (rows,), or None
        Weights divided by their mean in the batch; ``None`` if all are equal, so that the plain mean is the weighted
        one.
    """

    total: float
    own: NDArray[np.float32] | None = None
    relative: NDArray[np.float32] | None = None


class Trainer(Protocol):
    """A model with its optimizer and loss; :class:`udfs.handlers.ModelTrainer` is one and documents the fields."""

    @property
    def model(self) -> Any:
        """The framework's model."""

    @property
    def optimizer(self) -> Any:
        """The framework's optimizer."""

    @property
    def loss(self) -> Any:
        """A loss, or a sequence with one per output."""

    @property
    def metrics(self) -> Sequence[Any]:
        """Names, metrics or functions, as :func:`udfs.metrics.metric` takes them."""

    @property
    def batch_size(self) -> int:
        """Rows per step."""

    @property
    def drop_last(self) -> bool:
        """True if a short last batch of a shard is left out."""

    @property
    def task(self) -> Task | str | None:
        """Task that the user states, or its kind; ``None`` to decide it."""

    @property
    def scheduler(self) -> Any:
        """A scheduler of the learning rate, or ``None``."""

    @property
    def scheduler_step(self) -> str:
        """``"epoch"`` or ``"batch"``."""

    @property
    def freeze_until(self) -> Mapping[int, str | None]:
        """The layer up to which all is frozen, by the epoch from which on it is."""

    @property
    def offload(self) -> Any:
        """A :class:`udfs.offloading.DiskOffload`; ``None`` to train in memory."""


class Session(Protocol):
    """A configuration that is open on a worker: its model, its optimizer, its random numbers.

    It may have a method ``unused_inputs(inputs)`` that lists the places of the inputs that the network does not read on
    a batch, which a search refuses; an attribute ``view``, the :class:`RowView` of the configuration, which
    :func:`udfs.handlers.open_session` sets; a method ``attribute_marks()`` that returns bytes by the names of
    attributes that a checkpoint leaves out, which must not change in training; an attribute ``metric_mode``,
    ``"min"`` or ``"max"``, of a scheduler that follows the metric; an attribute ``training_bytes``, the memory that
    training takes; and a method ``checkpoint_buffer(nbytes)`` of a model larger than memory, which returns a writable
    ``memoryview`` of a file: checkpoints are ``memoryview`` too then.

    Attributes
    ----------
    random : dict
        State of the random number generators between two units, as :func:`udfs.handlers.take_random` gives it.
    model : object
        The framework's model.
    sums : TaskSums
        Sums of the session with its task, which turn the contributions of :meth:`train` and :meth:`evaluate` into
        numbers.
    """

    random: dict[str, Any]
    model: Any
    sums: TaskSums

    @property
    def inherited(self) -> str:
        """Description of the weights that :meth:`inherit` took over; empty without them."""

    def checkpoint(self) -> bytes:
        """Write everything that training needs to continue elsewhere.

        That is weights, buffers, optimizer, schedule and random numbers. Equal states give equal bytes.
        """

    def restore(self, state: bytes) -> None:
        """Continue from a checkpoint, whatever this session did before.

        Raises
        ------
        udfs.training.StateError
            The bytes are no checkpoint, or one of another model.
        """

    def adopt(self, state: bytes, *, optimizer: bool = True) -> None:
        """Begin from the checkpoint of another configuration; this session is new, and has not trained.

        Weights, buffers, the optimizer's slots and all step counts are taken over. Hyperparameters stay this session's:
        rate, momentum, decay and whatever else its optimizer was made with. A scheduler goes on at the source's step,
        from this session's base rates. The random numbers stay those of this session's seed.

        Parameters
        ----------
        state : bytes
            Bytes of :meth:`checkpoint`, of a session of the same framework.
        optimizer : bool
            Without it the optimizer and the scheduler begin anew, and only what learns and the buffers that move are
            taken over: a warm start. Default true.

        Raises
        ------
        udfs.training.StateError
            The bytes are no checkpoint, or one with other tensors, other shapes, another optimizer or without a slot
            that this one needs. The message names the first of them; nothing was taken over.
        """

    def inherit(self, state: bytes) -> None:
        """Begin with those weights of another configuration that fit; this session is new, and has not trained.

        Weights and buffers of equal name and number of axes are taken over, those of other sizes where they overlap.
        All else is this session's: weights without a counterpart, the optimizer, the schedule, the step counts, the
        random numbers, and frozen weights. :attr:`inherited` describes the weights.

        Parameters
        ----------
        state : bytes
            Bytes of :meth:`checkpoint`, of a session of the same framework.

        Raises
        ------
        udfs.training.StateError
            The bytes are no checkpoint, or one of another framework.
        """

    def train(self, data: Rows, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Run one training unit: every row of a shard once, by SGD.

        Rows with weights count by them: :func:`udfs.training.batch_weights` has the formula. Only a framework that has
        ``sample_weights`` is given such rows. The unit is :meth:`begin`, a :meth:`step` per batch and :meth:`end`, and
        the process's generators are set to :attr:`random` for it: :func:`udfs.handlers.train_in_steps` does this.

        Parameters
        ----------
        data : Rows
            Rows of the shard.
        order : array of int, shape (rows,)
            The order in which the rows are read.
        ends_epoch : bool
            Whether this was the last shard of an epoch: what counts epochs takes its step.

        Returns
        -------
        dict of str to array
            Contributions to the loss and the metrics, as :func:`udfs.metrics.merge_sums` adds them up.

        Raises
        ------
        udfs.training.Diverged
            The loss is not a number any more.
        """

    def begin(self) -> None:
        """Begin a unit whose batches the caller gives to :meth:`step` one by one, and close with :meth:`end`.

        So several sessions train on one batch in turn: their units are open at the same time. The three methods draw
        from the process's generators and leave :attr:`random` alone. The caller calls
        ``udfs.handlers.apply_random(session.random)`` before each of them and sets
        ``session.random = udfs.handlers.take_random()`` after it, whenever other code may have drawn in between. A
        unit that was not ended is forgotten.

        Raises
        ------
        udfs.training.TrainerError
            The session trains whole shards only, as one of :class:`udfs.training.TrainingFunctions`.
        """

    def step(self, inputs: tuple[NDArray[Any], ...], labels: tuple[NDArray[Any], ...], weights: BatchWeights) -> None:
        """Take one step of the unit that is open.

        Parameters
        ----------
        inputs, labels : tuple of array, each of shape (rows, ...)
            The rows of one batch, as a shard holds them.
        weights : BatchWeights
            Weights of these rows.

        Raises
        ------
        udfs.training.Diverged
            The loss is not a number any more.
        """

    def end(self, *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """Close the unit.

        Parameters
        ----------
        ends_epoch : bool
            See :meth:`train`.

        Returns
        -------
        dict of str to array
            See :meth:`train`.
        """

    def follow_metric(self, value: float) -> None:
        """Step a scheduler that follows the metric of the search, such as ``ReduceLROnPlateau``; others do nothing.

        Parameters
        ----------
        value : float
            Metric of the epoch before. The call comes before the first unit of an epoch.
        """

    def evaluate(self, data: Rows) -> dict[str, NDArray[np.float64]]:
        """Compute loss and metrics over a shard; nothing is learned, and the session's state stays as it is.

        Both are weighted where the rows have weights.
        """

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Run the network in inference mode: one array per output, of shape ``(rows, ...)``."""

    def ending(self, inputs: tuple[NDArray[Any], ...]) -> Ending:
        """Return the last operation of the network, on a batch of inputs; ``"unknown"`` is always allowed."""

    @property
    def loss_of(self) -> Callable[[float, float], float] | None:
        """Function that returns the first loss of a single output and a label; ``None`` if there is none."""

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Convert inputs to what the model itself takes: eight-bit pixels are divided by 255."""

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights and buffers."""
