"""Function of a configuration of an ablation to its trainer, from which the part is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.ablation import REMOVED, REPEAT, VARIANT, Removal
from optimizer.errors import InvalidArgumentError, nearest
from udfs.handlers import ModelTrainer, apply_random, take_random, trainer_framework
from udfs.tensors import TensorSpec
from udfs.training import RANDOM_STREAM, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    from udfs.shards import PreparedData, TensorGroup

    class _Network(Protocol):
        """Network of a trainer, from which parts are removed."""

        def paths(self) -> list[str]:
            """List the paths of the modules."""

        def mask_inputs(self, masks: Sequence[NDArray[np.bool_] | None]) -> ModelTrainer:
            """Return the trainer with a network that reads zeros where a mask is true."""

        def replace_modules(self, paths: Sequence[str]) -> tuple[ModelTrainer, dict[str, str]]:
            """Return the trainer without modules, and a description of what stands in the place of each."""

        def zero_parameters(self, paths: Sequence[str], seed: int) -> ModelTrainer:
            """Return the trainer with zeros in place of random parameters, as many as modules have."""


__all__ = ["AblatedTrainer", "masks"]


@dataclass(frozen=True)
class AblatedTrainer:
    """Function that calls ``trainer_fn`` and removes the part of the configuration from its network.

    Parameters
    ----------
    trainer_fn : callable
        Function of the user. It gets the hyperparameters and the list ``params["without"]``.
    data : PreparedData, optional
        Rows of the search. Without them nothing is removed; the names of modules are checked.
    """

    trainer_fn: Callable[[dict[str, Any]], Any]
    data: PreparedData | None = None

    def __call__(self, params: Mapping[str, Any]) -> Any:
        """Return the trainer of a configuration.

        Raises
        ------
        InvalidArgumentError
            The network has no such module.
        TrainerError
            The part cannot be removed from this network.
        """
        return self.trainer_and_replacements(params)[0]

    def trainer_and_replacements(self, params: Mapping[str, Any]) -> tuple[Any, dict[str, str]]:
        """Return the trainer of a configuration, and a description of what stands in the place of removed modules."""
        hidden = {VARIANT, REPEAT, REMOVED, RANDOM_STREAM}
        removal = Removal.from_dict(params.get(REMOVED, {}))
        made = self.trainer_fn(
            {name: value for name, value in params.items() if name not in hidden} | {"without": list(removal.without)}
        )
        if not (removal.features or removal.modules or removal.parameters_of):
            return made, {}
        paths = (*removal.modules, *removal.parameters_of)
        if self.data is None:
            if paths:
                _check_paths(_network(made, ()).paths(), paths)
            return made, {}
        viewed = self.data.viewed(made.view) if isinstance(made, ModelTrainer) else self.data
        specs = viewed.input_specs
        if isinstance(made, ModelTrainer):
            # As for the full network: draw the weights of lazy modules before anything else is drawn.
            trainer_framework(made).build_variables(made.model, specs)
        network = _network(made, specs)
        _check_paths(network.paths(), paths)
        drawn = take_random()
        try:
            if removal.features:
                marked = masks(viewed.inputs, removal.features)
                if all(mask is None for mask in marked):
                    raise TrainerError(
                        f"features must be columns that the network reads, got {', '.join(removal.features)}, which "
                        "the view of the trainer leaves out or combines. Ablate a trainer without a view"
                    )
                return network.mask_inputs(marked), {}
            if removal.modules:
                return network.replace_modules(removal.modules)
            return network.zero_parameters(removal.parameters_of, removal.seed), {}
        finally:
            # Later random numbers, as those of dropout, are the same with and without the part.
            apply_random(drawn)


def masks(inputs: Sequence[TensorGroup], columns: Sequence[str]) -> list[NDArray[np.bool_] | None]:
    """Mark the values of columns in each input.

    Returns
    -------
    list of array of bool, or None
        True at the values of the columns, in the shape of a row of the input; ``None`` for an input without any.

    Examples
    --------
    >>> from udfs.shards import TensorColumn, TensorGroup
    >>> group = TensorGroup("features", (TensorColumn("age", "float32"), TensorColumn("codes", "float32", (2,))))
    >>> masks([group], ["codes"])[0].tolist()
    [False, True, True]
    """
    marked: list[NDArray[np.bool_] | None] = []
    for group in inputs:
        flat = np.concatenate([np.full(column.size, column.name in columns) for column in group.columns])
        marked.append(flat.reshape(group.shape) if flat.any() else None)
    return marked


def _network(made: Any, specs: Sequence[TensorSpec]) -> _Network:
    """Open the network of a trainer for removals."""
    read = [TensorSpec(spec.shape, "float32") if spec.dtype == "uint8" else spec for spec in specs]
    framework = made.framework if isinstance(made, ModelTrainer) else type(made).__name__
    # A worker has the framework of the network alone.
    if framework == "torch":
        from udfs.ablation.torch import TorchNetwork

        return TorchNetwork(made, read)
    if framework == "keras":
        from udfs.ablation.keras import KerasNetwork

        return KerasNetwork(made, read)
    raise TrainerError(
        f"trainer_fn must return a ModelTrainer of torch or Keras for an ablation of features or modules, got "
        f'{framework}. Name the part in params=, and leave it out where params["without"] names it'
    )


def _check_paths(known: Sequence[str], paths: Sequence[str]) -> None:
    """Refuse modules that the network does not have, and modules that contain each other."""
    for path in paths:
        if path not in known:
            raise InvalidArgumentError(
                f"modules must be modules of the network, got {path!r}"
                f"{nearest(path, known) or '. Modules: ' + ', '.join(known[:20])}"
            )
        outer = next((other for other in paths if path.startswith((f"{other}.", f"{other}/"))), None)
        if outer is not None:
            raise InvalidArgumentError(
                f"modules must not contain each other, got {path!r} with {outer!r}. Name the outer one alone"
            )
