"""Freezing schedules: which layers learn from which epoch on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.training._errors import TrainerError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["check_phases", "frozen_up_to"]


def check_phases(phases: Mapping[int, str | None], epochs: int | None) -> None:
    """Check a schedule as far as that goes without the model.

    ``phases`` has the layer up to which the model is frozen by the first epoch of each phase. Raise TrainerError if an
    epoch is no integer, negative, or not before ``epochs``, or a layer is no name.
    """
    for epoch, layer in phases.items():
        if isinstance(epoch, bool) or not isinstance(epoch, int) or epoch < 0:
            raise TrainerError(f"keys of freeze_until must be epochs 0, 1, 2, ..., got {epoch!r}")
        if epochs is not None and epoch >= epochs:
            raise TrainerError(
                f"keys of freeze_until must be below epochs={epochs}, got {epoch}: that phase never begins"
            )
        if not (layer is None or (isinstance(layer, str) and layer)):
            raise TrainerError(
                f"freeze_until[{epoch}]={layer!r} is no layer: give the name of a module, or None to freeze nothing"
            )


def frozen_up_to(phases: Mapping[int, str | None], epoch: int) -> str | None:
    """Find the layer up to which all is frozen in an epoch; ``None`` where the model is as it was built.

    Examples
    --------
    >>> [frozen_up_to({1: "features.2", 3: "features.5"}, epoch) for epoch in range(4)]
    [None, 'features.2', 'features.2', 'features.5']
    """
    begun = [start for start in phases if start <= epoch]
    return phases[max(begun)] if begun else None
