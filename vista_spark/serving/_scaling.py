"""Number of backends of a server by its traffic."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Scaling"]

# Traffic comes in waves, and a backend takes seconds to start again.
_PATIENCE = 2


@dataclass(slots=True)
class Scaling:
    """Policy that adds backends at once, and gives them back after several epochs that needed fewer.

    ``least`` may be 0 for a server without traffic. ``patience`` is the number of epochs in a row that need fewer
    backends before any is given back.

    Examples
    --------
    >>> scaling = Scaling(0, 4)
    >>> scaling.after(3, now=1, idle=False)
    (3, 'the plan needs 3')
    >>> [scaling.after(1, now=3, idle=True)[0] for _ in range(2)]
    [3, 0]
    """

    least: int
    most: int
    patience: int = _PATIENCE
    _recent: list[int] = field(default_factory=list)

    @property
    def elastic(self) -> bool:
        """True if the number of backends can change."""
        return self.least < self.most

    def after(self, needed: int, *, now: int, idle: bool) -> tuple[int, str]:
        """Decide at the end of an epoch.

        The plan for the measured rates keeps ``needed`` backends busy; ``now`` are connected or requested; ``idle`` if
        no request came. Return the number of backends from now on, and the reason, ``""`` without a change.
        """
        wanted = self._bounded(0 if idle else max(1, needed))
        if wanted >= now:
            self._recent.clear()
            return (wanted, f"the plan needs {wanted}") if wanted > now else (now, "")
        self._recent.append(wanted)
        if len(self._recent) < self.patience:
            return now, ""
        lowest = max(self._recent[-self.patience :])
        self._recent.clear()
        why = "no request came" if lowest == 0 else f"the plan needs {lowest}"
        return lowest, f"{why} for {self.patience} epochs"

    def at_once(self, needed: int, *, now: int) -> tuple[int, str]:
        """Decide within an epoch: only more backends, never fewer."""
        wanted = self._bounded(max(1, needed))
        return (wanted, f"the plan needs {wanted}") if wanted > now else (now, "")

    def _bounded(self, count: int) -> int:
        return min(max(count, self.least), self.most)
