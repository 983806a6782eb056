"""``Repeat``: the configurations of a run once more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.procedures import Plan, Procedure, Stage

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from optimizer.procedures import Trial

__all__ = ["Repeat"]


class Repeat(Procedure):
    """Start all configurations of a run at once, each for the epochs that it had; a replay keeps their order.

    Parameters
    ----------
    configurations : sequence of tuple of mapping and int
        Params and epochs of each, in the order of their starts.
    **settings
        Of :class:`optimizer.procedures.Procedure`.
    """

    def __init__(self, configurations: Sequence[tuple[Mapping[str, Any], int]], **settings: Any) -> None:
        super().__init__(**settings)
        self._configurations = configurations

    def decide(self, fresh: Sequence[Trial], idle: int) -> None:  # noqa: ARG002 - the number is set
        """See :meth:`optimizer.procedures.Procedure.decide`."""
        if not len(self.ledger):
            for params, epochs in self._configurations:
                self.start(params, epochs)
        for trial in fresh:
            if trial.waiting:
                self.stop(trial, f"finished its {trial.granted} epochs")

    def plan(self) -> Plan:
        """See :meth:`optimizer.procedures.Procedure.plan`."""
        epochs = [epochs for _, epochs in self._configurations]
        return Plan(
            procedure=type(self).__name__,
            stages=tuple(Stage(f"c{number:03d}", 1, count, count) for number, count in enumerate(epochs)),
            epochs_each=max(epochs),
            chain=max(epochs),
            configurations=len(epochs),
            clones=0,
            most_epochs=sum(epochs),
        )
