"""Settings of a worker whose run trains on outputs of frozen layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.adaptation import FeatureStore
    from udfs.handlers import TensorSpec

__all__ = ["AdaptationSettings"]


@dataclass(frozen=True, slots=True)
class AdaptationSettings:
    """Frozen layers apart from what learns: how the worker opens models, and where it reads the layers' outputs.

    The run's data are :class:`udfs.shards.GrowingData`. Its rows are read in the same order by all trials, so that the
    order does not depend on who trains together.

    Parameters
    ----------
    features : FeatureStore
    inputs : tuple of TensorSpec
        What the columns hold: one for each input of a model, in the order of the data's inputs.
    columns : tuple of str
        Name of what each input reads, as :func:`udfs.training.open_adapted` takes it.
    batch_size : int
        Rows at a time where a damaged file is made again: that of the materialising job, so that it has the same bits.
    session_bytes : int, optional
        Bytes of the models that stay open, for what each changes in training; those that train together are open
        whatever they take. Default: a quarter of the worker's memory for shards and checkpoints.
    """

    features: FeatureStore
    inputs: tuple[TensorSpec, ...]
    columns: tuple[str, ...]
    batch_size: int
    session_bytes: int | None = None
