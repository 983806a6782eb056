"""Draw random weights with which a Keras network can run."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np

__all__ = ["initialise"]


def initialise(model: Any) -> Any:
    """Draw kernels from He's normal distribution over the fan-in, seeded by Python's generator; the rest stays.

    As for torch networks (:mod:`udfs.roster._initialise`): with Keras's default, Glorot's uniform distribution,
    the signal of a deep network vanishes to its bias.
    """
    drawn = np.random.default_rng(random.getrandbits(64))
    for layer in model.layers:
        # A depthwise filter reads one channel.
        depthwise = type(layer).__name__.startswith("Depthwise")
        for variable in layer.weights:
            shape = tuple(variable.shape)
            if variable.path.rpartition("/")[2] != "kernel":
                continue
            fan_in = math.prod(shape[:-2] if depthwise else shape[:-1])
            variable.assign(drawn.standard_normal(shape, np.float32) * np.float32(math.sqrt(2 / fan_in)))
    return model
