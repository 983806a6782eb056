"""Checks of a trainer's batches against the rows of the shards, or of groups, before anything is trained."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from udfs.handlers._trainer import trainer_framework
from udfs.training import TrainerError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.handlers._trainer import ModelTrainer
    from udfs.shards import PreparedData
    from udfs.tensors import TensorSpec

__all__ = ["BatchChecks", "check_batches"]

_REMEDIES = {"shard": "the number of shards", "group": "leave such groups out with min_rows"}


def check_batches(trainer: ModelTrainer, data: PreparedData) -> None:
    """Validate the sizes of a trainer's batches.

    Raises
    ------
    TrainerError
        With ``drop_last`` a shard has no batch; the last batch of a shard has one row, and the model does not train on
        one row; or the optimizer needs all rows in one batch.
    """
    rows = sorted(shard.rows for shard in data.shards if shard.split == "train")
    if len(rows) > 1:
        trainer_framework(trainer).check_mini_batches(trainer.optimizer)
    checks = BatchChecks(trainer, data.input_specs)
    for count in rows:
        checks.check_rows(count, "shard")


class BatchChecks:
    """Checks of a trainer's batches for parts of the rows.

    Parameters
    ----------
    trainer : ModelTrainer
        Trainer whose model has its variables.
    inputs : sequence of TensorSpec
        Shape and type of a row of each input.
    """

    def __init__(self, trainer: ModelTrainer, inputs: Sequence[TensorSpec]) -> None:
        self._trainer, self._inputs = trainer, inputs

    def check_rows(self, rows: int, part: str) -> None:
        """Check the batches of a part of so many rows: a ``"shard"``, or a ``"group"`` with a model of its own.

        Raises
        ------
        TrainerError
            As :func:`check_batches`.
        """
        size, backend = self._trainer.batch_size, trainer_framework(self._trainer)
        if rows > size:
            backend.check_mini_batches(self._trainer.optimizer)
        if self._trainer.drop_last:
            if rows < size:
                raise TrainerError(
                    f"batch_size must be at most {rows} with drop_last=True, the rows of the smallest {part}, got "
                    f"{size}. Nothing of that {part} would be trained: lower batch_size, or {_REMEDIES[part]}"
                )
            return
        if (rows % size or size) == 1 and not self._trainer.freeze_until and self._refusal:
            raise TrainerError(
                f"batch_size={size} must not leave a last batch of one row, got a {part} of {rows:,} rows, and the "
                f"model does not train on one row ({self._refusal}): set drop_last=True, or another batch_size"
            )

    @cached_property
    def _refusal(self) -> str:
        """Error of the model on one row; empty without one."""
        return trainer_framework(self._trainer).refusal_of_one_row(self._trainer.model, self._inputs)
