"""Removal of parts from networks of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from udfs.handlers import ModelTrainer

__all__ = ["mask_inputs"]

_MASK = "_ablation_mask_{}"


@dataclass(frozen=True)
class _Masking:
    """Hook that sets values of a network's inputs to zero, where the network's buffers are true."""

    places: tuple[int, ...]

    def __call__(self, module: torch.nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        masked = list(inputs)
        for place in self.places:
            masked[place] = inputs[place].masked_fill(module.get_buffer(_MASK.format(place)), 0)
        return tuple(masked)


def mask_inputs(trainer: ModelTrainer, masks: Sequence[NDArray[np.bool_] | None]) -> ModelTrainer:
    """Set values of the inputs to zero before a network reads them, in training and in prediction.

    Parameters
    ----------
    masks : sequence of array of bool, or None
        True at the values to remove, in the shape of a row, for each input.
    """
    places = tuple(place for place, mask in enumerate(masks) if mask is not None)
    for place in places:
        trainer.model.register_buffer(_MASK.format(place), torch.from_numpy(masks[place]), persistent=False)
    trainer.model.register_forward_pre_hook(_Masking(places))
    return trainer
