"""What a run needs to train parts of models on outputs of their frozen layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cerebro_spark.hopper import Grouping
    from udfs.hopper import AdaptationSettings

__all__ = ["Adapted"]


@dataclass(frozen=True, slots=True)
class Adapted:
    """How the trials of a run train together, and where the outputs are.

    Parameters
    ----------
    grouping : Grouping
    settings : AdaptationSettings
    kind : type of Selection
        Class of the result: it knows that checkpoints hold what learns, and nothing else.
    """

    grouping: Grouping
    settings: AdaptationSettings
    kind: type[Any]
