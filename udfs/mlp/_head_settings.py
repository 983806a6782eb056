"""Settings of the training of heads."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["HeadSettings"]


@dataclass(frozen=True, slots=True)
class HeadSettings:
    """Settings of the training of a linear head per attribute.

    Parameters
    ----------
    classes : tuple of int
        Number of classes of each head.
    epochs : int
        Passes over the rows.
    step_size : float
        Step size of Adam.
    batch_size : int
        Rows per step.
    l2 : float
        Penalty on squared weights.
    seed : int
        Seed of the order of rows.
    """

    classes: tuple[int, ...]
    epochs: int
    step_size: float
    batch_size: int
    l2: float
    seed: int
