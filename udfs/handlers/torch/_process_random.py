"""Random number generators of the process that a user's forward pass may draw from: Python's, numpy's and torch's."""

from __future__ import annotations

import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["generator_states", "same_random_numbers", "same_states", "seed_generators"]


def generator_states() -> tuple[Any, ...]:
    """Copy the states of all generators; those of GPUs only if this process uses GPUs."""
    gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), gpus


def same_states(first: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether two results of :func:`generator_states` are equal."""
    same_numpy = all(np.array_equal(mine, theirs) for mine, theirs in zip(first[1], other[1], strict=True))
    tensors = zip((first[2], *first[3]), (other[2], *other[3]), strict=False)
    return first[0] == other[0] and same_numpy and all(torch.equal(mine, theirs) for mine, theirs in tensors)


def seed_generators(seed: int) -> None:
    """Seed all generators."""
    random.seed(seed)
    np.random.seed(seed)  # the user's forward may draw from it
    torch.manual_seed(seed)


@contextmanager
def same_random_numbers() -> Iterator[None]:
    """Restore all generators after a block."""
    python, of_numpy, cpu, gpus = generator_states()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(of_numpy)
        torch.set_rng_state(cpu)
        if gpus:
            torch.cuda.set_rng_state_all(gpus)
