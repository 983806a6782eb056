"""Run context: the settings and resources that all parts of a run read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper._budget import Budget
from cerebro_spark.hopper._grouping import Singles
from cerebro_spark.hopper._stacked_groups import StackedGroups
from udfs.hopper import Checkpoints, WorkerSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.hopper._backend import SparkBackend
    from cerebro_spark.hopper._grouping import Grouping
    from cerebro_spark.hopper._journal import RunSpec
    from cerebro_spark.hopper._probe import Probed
    from cerebro_spark.hopper._replay_record import Recorded
    from udfs.hopper import AdaptationSettings
    from udfs.shards import PreparedData
    from udfs.training import Folds

__all__ = ["RunContext"]


@dataclass(frozen=True, kw_only=True)
class RunContext:
    """Settings and resources of one run. They stay the same until the run ends.

    ``trainer_fn`` returns the trainer of a configuration's params. ``unit_timeout_s`` is by default 20 times the
    longest unit so far of its trials, plus a minute. ``recorded`` is the run whose visits this run repeats.
    ``adaptation`` trains on the outputs of frozen layers of :class:`udfs.shards.GrowingData`. ``folds`` are those of
    the rows, of which each trial leaves one out.
    """

    spec: RunSpec
    prepared: PreparedData
    backend: SparkBackend
    trainer_fn: Callable[[dict[str, Any]], Any]
    probed: Probed
    unit_timeout_s: float | None = None
    budget: Budget = field(default_factory=Budget)
    recorded: Recorded | None = None
    grouping: Grouping = field(default_factory=Singles)
    adaptation: AdaptationSettings | None = None
    folds: Folds | None = None

    @property
    def num_shards(self) -> int:
        """Number of training shards, which is the number of units in an epoch of a trial."""
        return len(self.prepared.partitions)

    @property
    def validates(self) -> bool:
        """True if there are validation shards, one per partition."""
        return self.prepared.test_fraction > 0

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints of the run in the store."""
        return Checkpoints(self.prepared.store, self.spec.run)

    @property
    def train_rows(self) -> dict[int, int]:
        """Number of training rows by partition."""
        return {shard.partition: shard.rows for shard in self.prepared.shards if shard.split == "train"}

    @cached_property
    def shares(self) -> dict[str, tuple[int, ...]]:
        """Partitions by worker: its own, then copies of the next workers'. Workers that join later get none yet."""
        count = self.backend.num_workers
        shares = {
            f"w{number}": tuple(
                dict.fromkeys(
                    partition
                    for copy in range(self.spec.replicas)
                    for partition in self.prepared.partitions
                    if partition % count == (number + copy) % count
                )
            )
            for number in range(count)
        }
        return shares | {f"w{number}": () for number in range(count, self.backend.most_workers)}

    @property
    def first_shares(self) -> dict[str, tuple[int, ...]]:
        """Partitions by worker, of the workers that the run waits for at its start."""
        return {name: partitions for name, partitions in self.shares.items() if partitions}

    def worker_settings(self, worker: str) -> WorkerSettings:
        """Return the settings of a worker, which it asks for when it begins to serve the run."""
        return WorkerSettings(
            worker=worker,
            run=self.spec.run,
            trainer_fn=self.trainer_fn,
            sample=self.probed.params or self.spec.configs[0],
            prepared=self.prepared,
            partitions=self.shares[worker],
            seed=self.spec.seed,
            threads=self.backend.threads_per_worker,
            memory_bytes=self.backend.memory_bytes,
            device=self.backend.device,
            adaptation=self.adaptation,
            folds=self.folds,
            stacks=isinstance(self.grouping, StackedGroups),
            task=self.probed.session.sums.decision,
            larger_is_better=self.spec.larger_is_better,
            frameworks=self.probed.frameworks,
        )
