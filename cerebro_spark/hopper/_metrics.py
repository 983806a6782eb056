"""Metrics of a trial's epoch, from the sums that its units reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from udfs.metrics import merge_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.hopper._trial import Trial

__all__ = ["epoch_metrics"]


def epoch_metrics(
    trial: Trial, epoch: int, results: Callable[[Mapping[str, Any]], dict[str, float]]
) -> dict[str, float]:
    """Compute the metrics of an epoch: those of training by name, those of validation with ``val_`` before it.

    ``results`` makes metrics of the sums of loss and metrics.
    """
    merged: dict[str, Any] = {}
    # In the order of the partitions, so that the same sums give the same bits.
    for partition in sorted(trial.evaluated):
        merged = merge_sums(merged, trial.evaluated[partition])
    validation = {f"val_{name}": value for name, value in results(merged).items()}
    return dict(results(trial.training_sums(epoch))) | validation
