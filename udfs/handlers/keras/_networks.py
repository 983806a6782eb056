"""Models that a function builds, apart from the process's counters and generators."""

from __future__ import annotations

import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import keras

from udfs.handlers._builders import building, not_a_network
from udfs.handlers._framework import seeded_generators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers._framework import Builder
    from udfs.tensors import TensorSpec

__all__ = ["build"]


def build(builder: Builder, inputs: Sequence[TensorSpec], seed: int) -> Any:
    """Build with Python's and numpy's generators at a seed, and put them back.

    In a thread of its own: Keras's counters, which name layers, and its policies belong to a thread, so each process
    gives the layers the same names, whatever it built before.
    """
    with seeded_generators(seed), ThreadPoolExecutor(1) as apart:
        return apart.submit(_built, builder, inputs).result()


def _built(builder: Builder, inputs: Sequence[TensorSpec]) -> Any:
    with building(builder):
        named = {"input_shape": inputs[0].shape} if "input_shape" in inspect.signature(builder).parameters else {}
        model = builder(**named)
    if not isinstance(model, keras.Model):
        raise not_a_network(builder, model, "keras.Model")
    return model
