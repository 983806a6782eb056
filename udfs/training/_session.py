"""What trains a configuration on a worker, whatever its framework."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from optimizer.errors import CerebroError
from udfs.training._functions import TrainingFunctions
from udfs.training._trainer import ModelTrainer, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from udfs.shards import Tensors
    from udfs.training._sums import Sums

__all__ = ["Diverged", "Session", "TrainingError", "open_session", "training_bytes"]


class TrainingError(CerebroError, RuntimeError):
    """A unit that could not be trained."""


class Diverged(TrainingError):  # noqa: N818 - the field's word for it
    """The loss ceased to be a number."""


class Session(Protocol):
    """A configuration that is open on a worker: its model, its optimiser, its random numbers.

    Attributes
    ----------
    random : dict
        State of the generators that it draws from, between two units.

    model : torch.nn.Module or keras.Model
    threshold : float
        Above which a single output means the second class.
    sums : Sums
        What the contributions of :meth:`train` and :meth:`evaluate` stand for.
    """

    random: dict[str, Any]
    model: Any
    threshold: float
    sums: Sums

    def checkpoint(self) -> bytes:
        """All that it takes to go on elsewhere: weights, buffers, optimiser, schedule, random numbers."""

    def restore(self, state: bytes) -> None:
        """Go on from a checkpoint, whatever was done with this session before."""

    def train(self, data: Tensors, order: NDArray[np.int64], *, ends_epoch: bool) -> dict[str, NDArray[np.float64]]:
        """One training unit: every row of a shard once, by SGD.

        Parameters
        ----------
        data : Tensors
        order : array of int, shape (rows,)
            In which the rows are read.
        ends_epoch : bool
            Whether this was the last shard of an epoch: what is counted in epochs takes its step.

        Returns
        -------
        dict of str to array
            Contributions to the loss and the metrics, as :func:`udfs.training.merge_sums` adds them up.

        Raises
        ------
        Diverged
            The loss is not a number any more.
        """

    def evaluate(self, data: Tensors) -> dict[str, NDArray[np.float64]]:
        """The loss and the metrics over a shard, with nothing learned; the session's state stays as it is."""

    def predict(self, inputs: tuple[NDArray[Any], ...]) -> tuple[NDArray[np.float32], ...]:
        """Outputs of the network in inference mode, one array an output, of shape ``(rows, ...)``."""

    def read(self, inputs: tuple[NDArray[Any], ...]) -> list[NDArray[Any]]:
        """Inputs as the model itself takes them: eight-bit pixels are shares of one."""

    @property
    def weight_bytes(self) -> int:
        """Of weights and buffers."""


def training_bytes(session: Session) -> int:
    """What a model takes in training, about: weights, gradients and Adam's two moments, and the states on their way.

    Parameters
    ----------
    session : Session
    """
    return 6 * session.weight_bytes


def open_session(
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions],
    params: Mapping[str, Any],
    seed: int,
    *,
    device: str = "cpu",
) -> Session:
    """Build a configuration's model, with random numbers that depend on the seed alone.

    Parameters
    ----------
    trainer_fn : callable
        The user's.
    params : mapping
        Of the configuration.
    seed : int
        See :func:`udfs.training.initial_seed`.
    device : str
        ``"cpu"``, or an accelerator in torch's words.

    Raises
    ------
    TrainerError
        The function gives something else.
    """
    made = _seeded(trainer_fn, params, seed)
    if isinstance(made, TrainingFunctions):
        from udfs.training._own import OwnSession  # noqa: PLC0415 - its frameworks are heavy

        return OwnSession(made, dict(params))
    if not isinstance(made, ModelTrainer):
        raise TrainerError(f"trainer_fn gave a {type(made).__name__} for {dict(params)}: it has to give a ModelTrainer")
    if made.framework == "torch":
        from udfs.training._torch import TorchSession  # noqa: PLC0415

        return TorchSession(made, device)
    from udfs.training._keras import KerasSession  # noqa: PLC0415

    return KerasSession(made)


def _seeded(trainer_fn: Callable[[dict[str, Any]], Any], params: Mapping[str, Any], seed: int) -> Any:
    before = _seed_everything(seed)
    made = trainer_fn(dict(params))
    # A function that imports its framework itself has drawn the first weights from that one's own seed.
    if before != _imported():
        _seed_everything(seed)
        made = trainer_fn(dict(params))
    return made


def _seed_everything(seed: int) -> list[str]:
    """Seed what is imported so far, and say what that is."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the user's function may draw from it
    found = _imported()
    for name in found:
        module = sys.modules[name]
        (module.manual_seed if name == "torch" else module.utils.set_random_seed)(seed)
    return found


def _imported() -> list[str]:
    return [name for name in ("torch", "keras") if name in sys.modules]
