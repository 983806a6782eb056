"""Removal of parts from the network of a configuration: inputs, modules and random parameters."""

from udfs.ablation._ablated_trainer import AblatedTrainer

__all__ = ["AblatedTrainer"]
