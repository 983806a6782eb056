"""Base of the procedures that draw configurations from a sampler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optimizer.errors import InvalidArgumentError
from optimizer.procedures._procedure import Procedure
from optimizer.procedures._sampling import Sampler
from optimizer.procedures._stoppers import needing_ends

if TYPE_CHECKING:
    from optimizer.procedures._trial import Trial

__all__ = ["Sampled"]


class Sampled(Procedure):
    """Procedure whose new configurations come from a sampler.

    Parameters
    ----------
    **settings
        Settings of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        ``sampler`` is not a sampler or does not support the objectives, or a setting is not allowed.
    """

    def __init__(self, sampler: Sampler, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(sampler, Sampler):
            raise InvalidArgumentError(
                f"sampler must be a Sampler, such as RandomSampler(space, seed), got {sampler!r}"
            )
        sampler.admit(self.ledger.objectives)
        self.sampler = sampler
        self._suggested = 0

    @property
    def draws_late(self) -> bool:
        """True if configurations start as late as possible: the sampler learns, or a stopper needs finished trials."""
        return self.sampler.learns or bool(needing_ends(self.stoppers))

    def notes(self, *notes: str) -> tuple[str, ...]:
        """List the notes of a plan, followed by those of the stoppers and the sampler."""
        rules = needing_ends(self.stoppers)
        return (*notes, *([self.comparison(", ".join(rules))] if rules else []), *self.sampler.notes)

    def comparison(self, rules: str) -> str:
        """Describe the configurations with which stoppers compare that need finished ones."""
        return f"{rules} compares with configurations that have finished the last rung, and stops none before"

    def hear(self, trial: Trial) -> None:
        """See :meth:`Procedure.hear`."""
        self.sampler.hear(trial)

    @property
    def drawn(self) -> int:
        """Number of configurations that the sampler has suggested."""
        return self._suggested

    def draw(self, epochs: int, reason: str = "") -> Trial | None:
        """Start the sampler's next configuration; return None if there is none, or a limit is reached."""
        if not self.may_start:
            return None
        params = self.sampler.suggest(self._suggested, self.ledger)
        if params is None:
            return None
        if not self._suggested:
            # In the log, so that resuming a run with another sampler fails.
            reason = "; ".join(filter(None, (reason, *self.sampler.notes)))
        self._suggested += 1
        return self.start(params, epochs, reason=reason)
