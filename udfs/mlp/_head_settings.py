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
        Rows of a step, those of all tasks together.
    l2 : float
        L2 penalty: ``l2 / 2`` times the sum of the squared weights of standardised features.
    seed : int
        Seed of the order of the rows.
    """

    classes: tuple[int, ...]
    epochs: int
    step_size: float
    batch_size: int
    l2: float
    seed: int
