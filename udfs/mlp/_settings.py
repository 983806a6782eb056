"""Settings of a perceptron's training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from udfs.gang import Backend

__all__ = ["Settings"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a perceptron's training, the same in all tasks.

    ``regression`` minimises the squared error, else cross entropy of a softmax; ``classes`` is by default one more than
    the greatest label. ``batch_size`` counts the rows of a step of all tasks together. ``standardise`` brings inputs
    (and the target of a regression) to mean 0 and standard deviation 1, over all tasks. Half the sum of the squared
    weights times ``l2`` is added to the loss; biases are left out. The same ``seed``, rows and number of tasks give the
    same bits. ``largest`` limits the bytes of weights of a model. Names of columns are for messages; without ``weight``
    every row counts once.
    """

    hidden: tuple[int, ...]
    regression: bool
    classes: int | None
    epochs: int
    step_size: float
    solver: Literal["adam", "sgd"]
    batch_size: int
    backend: Backend
    standardise: bool
    l2: float
    seed: int
    device: str
    largest: int
    features: str
    label: str
    weight: str | None = None
