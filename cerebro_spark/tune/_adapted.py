"""What a run needs to train parts of models on outputs of their frozen layers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.hopper import Grouping, Probed
    from udfs.hopper import AdaptationSettings

__all__ = ["Adapted"]


@dataclass(frozen=True, slots=True)
class Adapted:
    """How the trials of a run train together, and where the outputs are.

    Parameters
    ----------
    grouping : Grouping
    settings : AdaptationSettings
    kind : callable
        Makes the result, as :class:`Selection` does: it knows that checkpoints hold what learns, and nothing else.
    probed : Probed, optional
        The search's first configuration, where it was tried on the driver already.
    campaign : str
        What the run is a part of: MLflow's run of that name is the parent of this one's. Default ``""``: none.
    number : int
        Which part, from 0 on.
    parameters : mapping of str to object
        Settings beside those of the search, for MLflow.
    """

    grouping: Grouping
    settings: AdaptationSettings
    kind: Callable[..., Any]
    probed: Probed | None = None
    campaign: str = ""
    number: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
