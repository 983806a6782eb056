"""Function of a configuration of an ablation to its trainer, from which the part is removed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.ablation import REMOVED, REPEAT, VARIANT, Removal
from udfs.handlers import ModelTrainer
from udfs.training import RANDOM_STREAM, TrainerError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from udfs.shards import TensorGroup

__all__ = ["AblatedTrainer"]

# Frameworks with a module of this package that removes parts of their networks.
_FRAMEWORKS = ("torch",)


@dataclass(frozen=True)
class AblatedTrainer:
    """Function that calls ``trainer_fn`` and removes the part of the configuration from its network.

    Parameters
    ----------
    trainer_fn : callable
        Function of the user. It gets the hyperparameters and the list ``params["without"]``.
    inputs : tuple of TensorGroup
        Inputs of the network with their columns. Without them nothing is removed from the network: before there are
        rows, only ``trainer_fn`` is checked.
    """

    trainer_fn: Callable[[dict[str, Any]], Any]
    inputs: tuple[TensorGroup, ...] = ()

    def __call__(self, params: Mapping[str, Any]) -> Any:
        """Return the trainer of a configuration.

        Raises
        ------
        TrainerError
            The part cannot be removed from this network.
        """
        hidden = {VARIANT, REPEAT, REMOVED, RANDOM_STREAM}
        removal = Removal.from_dict(params.get(REMOVED, {}))
        made = self.trainer_fn(
            {name: value for name, value in params.items() if name not in hidden} | {"without": list(removal.without)}
        )
        if not self.inputs or not (removal.features or removal.modules or removal.parameters_of):
            return made
        if not isinstance(made, ModelTrainer) or made.framework not in _FRAMEWORKS:
            what = made.framework if isinstance(made, ModelTrainer) else type(made).__name__
            raise TrainerError(
                f"trainer_fn must return a ModelTrainer of {' or '.join(_FRAMEWORKS)} for an ablation of features or "
                f'modules, got {what}. Name the part in params=, and leave it out where params["without"] names it'
            )
        from udfs.ablation.torch import mask_inputs  # a worker of another framework has no torch

        if removal.features:
            made = mask_inputs(made, masks(self.inputs, removal.features))
        return made


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
