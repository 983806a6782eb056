"""Settings of the training that follows a transformation."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.arguments import real, whole

__all__ = ["Tuning"]


@dataclass(frozen=True, slots=True)
class Tuning:
    """Settings of the fine-tuning of variants.

    The loss is ``(1 - distillation)`` times the cross entropy with the labels, plus `distillation` times the divergence
    from the softened scores of the original network (Hinton, Vinyals and Dean, *Distilling the knowledge in a neural
    network*, 2015). AdamW; the learning rate falls to zero along a cosine.

    Parameters
    ----------
    epochs : int
        Passes over the training rows. Default 3.
    batch_size : int
        Rows per step. Default 16.
    learning_rate : float
        Largest learning rate. Default 1e-4.
    distillation : float
        Weight of the original network's scores, from 0 to 1. Default 0.5.
    temperature : float
        Divisor of scores before the softmax of the distillation. Default 2.
    seed : int
        Seed of the order of rows. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is out of range.
    """

    epochs: int = 3
    batch_size: int = 16
    learning_rate: float = 1e-4
    distillation: float = 0.5
    temperature: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole("epochs", self.epochs, 0)
        whole("batch_size", self.batch_size)
        whole("seed", self.seed, 0)
        real("learning_rate", self.learning_rate, 0, above=True)
        real("distillation", self.distillation, 0, 1)
        real("temperature", self.temperature, 0, above=True)
