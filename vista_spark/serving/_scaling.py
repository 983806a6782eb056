"""How many backends a server has, by its traffic."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Scaling"]

# Traffic comes in waves: a backend takes seconds to be there again.
_PATIENCE = 2


@dataclass(slots=True)
class Scaling:
    """Adds backends at once where the plan needs more, and gives them back after epochs that needed fewer.

    Parameters
    ----------
    least, most : int
        Backends; `least` may be 0, for hours without a request.
    patience : int
        Epochs in a row that needed fewer before any is given back. Default 2.

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
        """Whether the number ever changes."""
        return self.least < self.most

    def after(self, needed: int, *, now: int, idle: bool) -> tuple[int, str]:
        """Decide at the end of an epoch.

        Parameters
        ----------
        needed : int
            Backends that the plan for its rates keeps busy.
        now : int
            Backends that there are, or that were asked for.
        idle : bool
            Whether no request came in it.

        Returns
        -------
        int
            Backends from now on.
        str
            Why; ``""`` where nothing changes.
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
        """Decide within an epoch: only whether there are to be more."""
        wanted = self._bounded(max(1, needed))
        return (wanted, f"the plan needs {wanted}") if wanted > now else (now, "")

    def _bounded(self, count: int) -> int:
        return min(max(count, self.least), self.most)
