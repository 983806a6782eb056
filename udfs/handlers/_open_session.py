"""Opening a configuration for training: the user's function is called, seeded, and its model gets a session."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import CerebroError
from udfs.handlers._adapted_trainer import trained_whole
from udfs.handlers._batch_checks import check_batches
from udfs.handlers._function_session import FunctionSession
from udfs.handlers._protocol import ChangedWeightsError
from udfs.handlers._registry import framework, framework_of, imported_frameworks
from udfs.handlers._trainer import ModelTrainer, trainer_framework
from udfs.training import TrainerError, TrainingFunctions, check_phases

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from udfs.handlers._adapted_trainer import Adapted
    from udfs.shards import PreparedData
    from udfs.tensors import TensorSpec
    from udfs.training import Session

__all__ = ["call_trainer", "open_adapted", "open_session", "training_bytes"]


def training_bytes(session: Session) -> int:
    """Estimate the bytes that training takes: weights, gradients, Adam's two moments, and checkpoints on their way."""
    return int(getattr(session, "training_bytes", 6 * session.weight_bytes))


def open_session(
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions],
    params: Mapping[str, Any],
    seed: int,
    *,
    device: str = "cpu",
    weighted: bool = False,
    epochs: int | None = None,
    data: PreparedData | None = None,
    by_group: bool = False,
) -> Session:
    """Build a configuration's model, with random numbers that depend on the seed alone.

    Parameters
    ----------
    trainer_fn : callable
        The user's function of a configuration to a ModelTrainer or TrainingFunctions.
    params : mapping
        Configuration.
    seed : int
        Seed of the model, see :func:`udfs.training.initial_seed`.
    device : str
        ``"cpu"`` (default), ``"auto"``, or an accelerator as torch names it, such as ``"cuda:1"``. A model that
        :class:`TrainingFunctions` put on an accelerator stays there.
    weighted : bool
        Whether the rows to train on have weights. Default false.
    epochs : int, optional
        Largest number of epochs that will be trained: a phase of ``freeze_until`` that begins later is an error.
    data : PreparedData, optional
        Shards to train on: variables that the model creates at its first call are built for their rows, and the sizes
        of their batches are checked.
    by_group : bool
        Whether groups of the shards' rows have models of their own; the batches of each group are then to be checked by
        :class:`BatchChecks`. Default false.

    Returns
    -------
    Session
        Session of the model, before its first training unit.

    Raises
    ------
    TrainerError
        The function returns something else, or a trainer that does not train on such rows or for so many epochs.
    DeviceError
        This process has no such device.
    """
    made = _made(trainer_fn, params, seed, weighted=weighted, data=data, by_group=by_group)
    if isinstance(made, TrainingFunctions):
        return FunctionSession(made, dict(params), device)
    check_phases(made.freeze_until, epochs)
    backend = trainer_framework(made)
    session = backend.open_training(made, backend.device(device))
    if made.view is not None:
        session.view = made.view  # type: ignore[attr-defined] # see Session
    return session


def open_adapted(
    trainer_fn: Callable[[dict[str, Any]], ModelTrainer | TrainingFunctions],
    params: Mapping[str, Any],
    seed: int,
    *,
    inputs: Sequence[TensorSpec],
    columns: Sequence[str],
    device: str = "cpu",
    weighted: bool = False,
    data: PreparedData | None = None,
) -> Adapted:
    """Build a configuration's model as :func:`open_session` does, opened where its frozen layers end.

    ``inputs`` are the features of the records, one for each input of the model, in the types of the data. ``columns``
    names what each input reads: layers of two models have one expression only if they read one column. Errors are those
    of :func:`open_session`, and a TrainerError if no parameter of the model is trainable.
    """
    if len(inputs) != len(columns):
        raise TrainerError(f"{len(inputs)} inputs and {len(columns)} columns ({', '.join(columns)}): one name each")
    made = _made(trainer_fn, params, seed, weighted=weighted, data=data)
    if isinstance(made, TrainingFunctions):
        session = FunctionSession(made, dict(params), device)
        return trained_whole(session, made, inputs, columns, "train_fn of TrainingFunctions trains the whole model")
    if made.offload is not None:
        raise TrainerError(
            "offload must be None in an adaptation, whose frozen layers are computed once, got a DiskOffload. Use a "
            "search such as GridSearch"
        )
    if made.view is not None:
        raise TrainerError(
            f"view must be None in an adaptation, whose records are read as they are, got {made.view!r}. Use a search "
            "such as GridSearch"
        )
    backend = trainer_framework(made)
    try:
        return backend.open_adapted(made, inputs, columns, backend.device(device))
    except ChangedWeightsError as error:
        again = _made(trainer_fn, params, seed, weighted=weighted, data=data)
        if isinstance(again, TrainingFunctions):  # a function whose result depends on the call
            raise
        whole = backend.open_training(again, backend.device(device))
        return trained_whole(whole, again, inputs, columns, str(error))


def _made(
    trainer_fn: Callable[[dict[str, Any]], Any],
    params: Mapping[str, Any],
    seed: int,
    *,
    weighted: bool,
    data: PreparedData | None,
    by_group: bool = False,
) -> ModelTrainer | TrainingFunctions:
    """Call the user's function, build the variables of its model, and check that it trains on the rows."""
    made = _returned(_seeded(trainer_fn, params, seed), params)
    if isinstance(made, TrainingFunctions):
        if weighted and not made.uses_weights:
            raise TrainerError(
                "the rows have weights, which TrainingFunctions may ignore: read data.weights in train_fn, give "
                "weighted means, and set TrainingFunctions(uses_weights=True); or leave the weight column out"
            )
        return made
    backend = trainer_framework(made)
    if weighted and not backend.sample_weights:
        raise TrainerError(f"models of {backend.name} do not train on rows with weights: leave the weight column out")
    if data is not None:
        seen = data if made.view is None else data.viewed(made.view)
        backend.build_variables(made.model, seen.input_specs)
        if not by_group:
            check_batches(made, seen)
    return made


def call_trainer(
    trainer_fn: Callable[[dict[str, Any]], Any], params: Mapping[str, Any], seed: int
) -> ModelTrainer | TrainingFunctions:
    """Call the user's function for a configuration, without data.

    Raises
    ------
    TrainerError
        The function raises, or returns no trainer; the message has the remedy.
    """
    try:
        made = _seeded(trainer_fn, params, seed)
    except CerebroError:
        raise
    except Exception as error:
        raise TrainerError(
            f"trainer_fn must return a ModelTrainer for {dict(params)}, got {type(error).__name__}: {error}"
        ) from error
    return _returned(made, params)


def _returned(made: Any, params: Mapping[str, Any]) -> ModelTrainer | TrainingFunctions:
    """Check what the user's function returned, and say how to make a trainer of it."""
    if isinstance(made, (ModelTrainer, TrainingFunctions)):
        return made
    remedy = "Return ModelTrainer(model=model, optimizer=optimizer, loss=loss)."
    if made is None:
        remedy = "The function has no return statement for this configuration."
    elif isinstance(made, type):
        remedy = f"It returns the class {made.__name__} itself: return an instance."
    elif framework_of(made) is not None and getattr(made, "optimizer", None) is not None:
        remedy = (
            "It is a compiled model: return ModelTrainer(model=model, optimizer=model.optimizer, loss=model.loss), and "
            "name metrics there."
        )
    raise TrainerError(
        f"trainer_fn must return a ModelTrainer for {dict(params)}, got {'None' if made is None else _article(made)}. "
        f"{remedy}"
    )


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _seeded(trainer_fn: Callable[[dict[str, Any]], Any], params: Mapping[str, Any], seed: int) -> Any:
    before = _seed_everything(seed)
    made = trainer_fn(dict(params))
    # A function that imports its framework itself has drawn the first weights from that one's own seed.
    if before != imported_frameworks():
        _seed_everything(seed)
        made = trainer_fn(dict(params))
    return made


def _seed_everything(seed: int) -> tuple[str, ...]:
    """Seed every generator that is imported so far, and name the frameworks among them."""
    random.seed(seed)
    np.random.seed(seed)  # the user's function may draw from it
    imported = imported_frameworks()
    for name in imported:
        framework(name).seed(seed)
    return imported
