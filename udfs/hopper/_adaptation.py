"""Settings of a worker whose run trains on outputs of frozen layers."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.adaptation import Augmenter, FeatureStore
    from udfs.handlers import TensorSpec
    from udfs.hopper._messages import SourceState

__all__ = ["AdaptationSettings", "WarmStart", "configuration_key"]


def configuration_key(params: Mapping[str, Any]) -> str:
    """Name a configuration by its params: equal ones have one name, in every process.

    Examples
    --------
    >>> configuration_key({"lr": 0.1, "layers": (1, 2)}) == configuration_key({"layers": [1, 2], "lr": 0.1})
    True
    """
    return json.dumps(dict(params), sort_keys=True, default=str)


@dataclass(frozen=True, slots=True)
class WarmStart:
    """Weights that configurations begin with: those that they had at the end of an earlier run."""

    run: str = ""  # the earlier run, whose checkpoints the store has. Default "": none.
    # By configuration_key. Other configurations begin with their initial weights.
    states: Mapping[str, SourceState] = field(default_factory=dict)

    def of(self, params: Mapping[str, Any]) -> SourceState | None:
        """Find the state that a configuration begins with; ``None`` where it is new."""
        return self.states.get(configuration_key(params)) if self.states else None


@dataclass(frozen=True, slots=True)
class AdaptationSettings:
    """Frozen layers apart from what learns: how the worker opens models, and where it reads the layers' outputs.

    The run's data are :class:`udfs.shards.GrowingData`. Its rows are read in the same order by all trials, so that the
    order does not depend on who trains together.
    """

    features: FeatureStore  # stored outputs of the frozen layers
    # Tensors in the columns: one for each input of a model, in the order of the data's inputs.
    inputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]  # name of what each input reads, as udfs.handlers.open_adapted takes it
    # Rows at a time where a damaged file is made again: that of the materialising job, so that it has the same bits.
    batch_size: int
    # Bytes of the models that stay open, for what each changes in training; those that train together are open whatever
    # they take. Default: a quarter of the worker's memory for shards and checkpoints.
    session_bytes: int | None = None
    warm: WarmStart = field(default_factory=WarmStart)  # weights of an earlier run to begin with
    # Augmenter that makes the training copies of the records. Default None: the records themselves.
    augmenter: Augmenter | None = None
