"""What procedures that draw configurations from a sampler share."""

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
    sampler : Sampler
    **settings
        Of :class:`Procedure`.

    Raises
    ------
    InvalidArgumentError
        No sampler, one that cannot sample for these objectives, or a setting that is not allowed.
    """

    def __init__(self, sampler: Sampler, **settings: Any) -> None:
        super().__init__(**settings)
        if not isinstance(sampler, Sampler):
            raise InvalidArgumentError(f"sampler={sampler!r}: a Sampler, as RandomSampler(space, seed)")
        sampler.admit(self.ledger.objectives)
        self.sampler = sampler
        self._suggested = 0

    @property
    def draws_late(self) -> bool:
        """Whether configurations are to start as late as they can: the sampler learns, or a stopper needs ends."""
        return self.sampler.learns or bool(needing_ends(self.stoppers))

    def notes(self, *own: str) -> tuple[str, ...]:
        """List a plan's notes: the procedure's own, then those of its stoppers and its sampler."""
        rules = needing_ends(self.stoppers)
        return (*own, *([self.comparison(", ".join(rules))] if rules else []), *self.sampler.notes)

    def comparison(self, rules: str) -> str:
        """Say with whom stoppers compare that need ends to compare with."""
        return f"{rules} compares with configurations that have come to the last rung: none is stopped before one has"

    def hear(self, trial: Trial) -> None:
        """See :meth:`Procedure.hear`."""
        self.sampler.hear(trial)

    @property
    def drawn(self) -> int:
        """How many configurations the sampler has given."""
        return self._suggested

    def draw(self, epochs: int, reason: str = "") -> Trial | None:
        """Start the sampler's next configuration; None where there is none, or a limit is reached.

        Parameters
        ----------
        epochs : int
        reason : str

        Returns
        -------
        Trial or None
        """
        if not self.may_start:
            return None
        params = self.sampler.suggest(self._suggested, self.ledger)
        if params is None:
            return None
        if not self._suggested:
            # In the log, so that a run that is resumed with another sampler says so.
            reason = "; ".join(filter(None, (reason, *self.sampler.notes)))
        self._suggested += 1
        return self.start(params, epochs, reason=reason)
