"""Run extension: protocol by which another package changes how the trials of a search train."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cerebro_spark.tune._selection import Selection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.hopper import Probed, RunContext, RunResult

__all__ = ["RunExtension", "WholeModels"]


class RunExtension(Protocol):
    """Changes to the runs of a search, which :meth:`Search.extended` takes. :class:`Adaptation` has one.

    A search calls it once before a run, with the run's context, and once after it, with the result.
    """

    @property
    def probed(self) -> Probed | None:
        """First configuration, if it was opened on the driver before; the search opens it otherwise."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Settings that MLflow logs beside those of the search."""

    @property
    def campaign(self) -> tuple[str, int] | None:
        """Name of the campaign that the run is a part of, and the number of the part; ``None`` without a campaign."""

    def extend(self, context: RunContext) -> RunContext:
        """Return the context of a run with the changes."""

    def result(self, run: RunResult, trainer_fn: Callable[[dict[str, Any]], Any]) -> Selection:
        """Make the result of the search."""


@dataclass(frozen=True)
class WholeModels:
    """Extension that changes nothing: each trial trains its whole model, alone."""

    probed: Probed | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    campaign: tuple[str, int] | None = None

    def extend(self, context: RunContext) -> RunContext:
        """See :meth:`RunExtension.extend`."""
        return context

    def result(self, run: RunResult, trainer_fn: Callable[[dict[str, Any]], Any]) -> Selection:
        """See :meth:`RunExtension.result`."""
        return Selection(run, trainer_fn)
