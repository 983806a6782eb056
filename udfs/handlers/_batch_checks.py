"""Checks of a trainer's batches against the rows of the shards, before anything is trained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from udfs.handlers._trainer import trainer_framework
from udfs.training import TrainerError

if TYPE_CHECKING:
    from udfs.handlers._trainer import ModelTrainer
    from udfs.shards import PreparedData

__all__ = ["check_batches"]


def check_batches(trainer: ModelTrainer, data: PreparedData) -> None:
    """Validate the sizes of a trainer's batches.

    Raises
    ------
    TrainerError
        With ``drop_last`` a shard has no batch; the last batch of a shard has one row, and the model does not train on
        one row; or the optimizer needs all rows in one batch.
    """
    size = trainer.batch_size
    rows = [shard.rows for shard in data.shards if shard.split == "train"]
    if sum(rows) > size or len(rows) > 1:
        trainer_framework(trainer).check_mini_batches(trainer.optimizer)
    if trainer.drop_last:
        if min(rows) < size:
            raise TrainerError(
                f"batch_size must be at most {min(rows)} with drop_last=True, the rows of the smallest shard, got "
                f"{size}. Nothing of that shard would be trained: lower batch_size, or the number of shards"
            )
        return
    alone = [count for count in rows if (count % size or size) == 1]
    if not alone or trainer.freeze_until:
        return
    why = trainer_framework(trainer).refusal_of_one_row(trainer.model, data.input_specs)
    if why:
        raise TrainerError(
            f"batch_size={size} must not leave a last batch of one row, got a shard of {alone[0]:,} rows, and the "
            f"model does not train on one row ({why}): set drop_last=True, or another batch_size"
        )
