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

    Parameters
    ----------
    hidden : tuple of int
        Units of each hidden layer.
    regression : bool
        Squared error; else softmax and cross entropy.
    classes : int, optional
        Number of classes; by default one more than the greatest label.
    batch_size : int
        Rows of a step, those of all tasks together.
    backend : {"gloo", "horovod"}
        Backend of :func:`udfs.gang.gang`.
    standardise : bool
        Inputs (and the target of a regression) to mean 0 and standard deviation 1, over all tasks.
    l2 : float
        Half the sum of the squared weights, times this, is added to the loss; biases are left out.
    seed : int
        The same seed, rows and number of tasks give the same bits.
    largest : int
        Bytes of weights that a model may have.
    features, label : str
        Names of the columns, for messages.
    weight : str, optional
        Name of the column of weights; without it every row counts once.
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
