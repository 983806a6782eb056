"""Emulated accelerator: a model that sleeps as long as a published profile says, and computes nothing."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.arguments import real
from udfs.serving._router import TensorSpec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from optimizer.serving import BatchingProfile

__all__ = ["EmulatedModel"]


@dataclass(frozen=True, slots=True)
class EmulatedModel:
    """Function of whole batches that sleeps ``stretch`` times the latency of its profile.

    Many backends of it run on few cores, and all else of serving is real: requests, routes, messages, queues, batches.
    Whatever is measured with it has to say that it is emulated.

    Parameters
    ----------
    profile : BatchingProfile
        Of the accelerator, such as one that was published.
    stretch : float
        Slows the accelerator down, so that the cores bear the requests of many of them; deadlines are to be stretched
        alike. Default 1.
    inputs : tuple of TensorSpec
        What a request has; nothing of it is looked at. Default: one number, ``"x"``.

    Raises
    ------
    InvalidArgumentError
        A stretch that is not above 0.
    ServingError
        When called with a batch that the profile does not have.

    Examples
    --------
    The model of Figure 3.12 of the thesis, ten times slower. An answer says which process ran it, how many rows its
    batch had, and when that began and ended, in seconds of the node's ``time.monotonic``:

    >>> import numpy as np
    >>> from optimizer.serving import BatchingProfile
    >>> inception = EmulatedModel(BatchingProfile.from_line(0.69, 5.0, 128), stretch=10)
    >>> round(float(inception.stretched.latencies[2]), 6)
    63.8
    >>> answer = inception({"x": np.zeros((2, 1), np.float32)})
    >>> answer["batch"].tolist(), bool((answer["ended_s"] - answer["began_s"] >= 0.0638).all())
    ([2, 2], True)
    """

    profile: BatchingProfile
    stretch: float = 1.0
    inputs: tuple[TensorSpec, ...] = (TensorSpec("x", "float32", (-1, 1)),)

    def __post_init__(self) -> None:
        real("stretch", self.stretch, 0, above=True)

    @property
    def stretched(self) -> BatchingProfile:
        """Profile by which a session of this model is planned."""
        return self.profile.at_speed(1 / self.stretch)

    def __call__(self, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Sleep for the latency of one batch."""
        began = time.monotonic()
        count = len(next(iter(arrays.values())))
        until = began + self.stretch * count / self.profile.throughput(count)
        while (now := time.monotonic()) < until:
            time.sleep(until - now)
        return {
            "process": np.full(count, os.getpid()),
            "batch": np.full(count, count),
            "began_s": np.full(count, began),
            "ended_s": np.full(count, now),
        }
