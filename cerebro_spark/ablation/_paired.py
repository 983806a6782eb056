"""Extension of a search whose configurations are compared in pairs."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Group
from udfs.training import random_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cerebro_spark.ablation._result import AblationResult
    from cerebro_spark.hopper import Probed, RunContext, RunResult, Trial

__all__ = ["Paired"]


@dataclass(frozen=True)
class Paired:
    """Extension by which the variants of a repeat visit the shards in the same order.

    ``first`` has the id of the first configuration of each repeat, by the name of its random numbers. See
    :class:`cerebro_spark.tune.RunExtension`.
    """

    first: Mapping[str, str]
    result_of: Callable[[RunResult, Callable[[dict[str, Any]], Any]], AblationResult]
    probed: Probed | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    campaign: tuple[str, int] | None = None

    def extend(self, context: RunContext) -> RunContext:
        """See :meth:`cerebro_spark.tune.RunExtension.extend`."""
        return replace(context, grouping=_PairedOrders(self.first))

    def result(self, run: RunResult, trainer_fn: Callable[[dict[str, Any]], Any]) -> AblationResult:
        """See :meth:`cerebro_spark.tune.RunExtension.result`."""
        return self.result_of(run, trainer_fn)


@dataclass(frozen=True)
class _PairedOrders:
    """Grouping of one trial each, in the order of the first trial of the repeat."""

    first: Mapping[str, str]

    def groups(self, trials: Sequence[Trial]) -> Sequence[Group]:
        """See :class:`cerebro_spark.hopper.Grouping`."""
        return [
            Group((trial,), order=self.first.get(random_stream(trial.trial_id, trial.params), "")) for trial in trials
        ]

    def record_failure(self, group: Group, why: str) -> None:
        """See :class:`cerebro_spark.hopper.Grouping`: groups of one trial cannot be smaller."""
