"""Settings of hybrids of the model hopper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from optimizer.arguments import one_of, whole
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["HYBRIDS", "HybridSettings"]

HYBRIDS = ("off", "auto", "all_reduce", "averaging")
"""Ways to train fewer configurations than workers: by hopping alone, by the fastest way, or by one that is named."""


@dataclass(frozen=True, slots=True)
class HybridSettings:
    """Choice of a hybrid of the model hopper (Cerebro, section 4.3.2).

    Parameters
    ----------
    mode : str
        One of :data:`HYBRIDS`. Default ``"off"``.
    averaging_from : int, optional
        First epoch, from 0, in which weights may be averaged. Default ``None``: never, and with ``mode="averaging"``
        from the middle of the epochs on, see :meth:`resolved`.

    Raises
    ------
    InvalidArgumentError
        The mode is unknown, or ``averaging_from`` is negative or given where nothing is averaged.

    Examples
    --------
    >>> HybridSettings("averaging").resolved(10).modes(epoch=4), HybridSettings("averaging").resolved(10).modes(epoch=5)
    (('hop',), ('averaging',))
    >>> HybridSettings("auto", averaging_from=3).modes(epoch=3)
    ('hop', 'all_reduce', 'averaging')
    """

    mode: str = "off"
    averaging_from: int | None = None

    def __post_init__(self) -> None:
        one_of("hybrid", self.mode, HYBRIDS)
        if self.averaging_from is None:
            return
        whole("averaging_from", self.averaging_from, 0)
        if self.mode == "off":
            raise InvalidArgumentError(
                f"averaging_from must be None where hybrid is 'off', got {self.averaging_from}. Set "
                "hybrid='averaging', or hybrid='auto' to let the plan decide"
            )

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HybridSettings:
        """Restore what :meth:`to_dict` returned; ``{}`` stands for the defaults."""
        return cls(**data)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data; the defaults are ``{}``."""
        return {} if self.mode == "off" else asdict(self)

    def resolved(self, epochs: int) -> HybridSettings:
        """Return the settings with the first epoch of averaging, where ``epochs`` is the most that is trained."""
        if self.mode != "averaging" or self.averaging_from is not None:
            return self
        return HybridSettings(self.mode, -(-epochs // 2))

    def modes(self, epoch: int) -> tuple[str, ...]:
        """Return the ways to train an epoch, counted from 0, while fewer configurations train than workers."""
        late = self.averaging_from is not None and epoch >= self.averaging_from
        averaging = ("averaging",) if late else ()
        if self.mode == "auto":
            return ("hop", "all_reduce", *averaging)
        if self.mode == "all_reduce":
            return averaging or ("all_reduce",)
        return averaging or ("hop",)

    def explain(self) -> str:
        """Describe the settings in a line."""
        late = "" if self.averaging_from is None else f", averaging from epoch {self.averaging_from + 1} on"
        return f"hybrid: {self.mode}{late}, while fewer configurations train than workers"
