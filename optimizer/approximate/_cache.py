"""Memory of the device: resident options, and the order of their eviction."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from optimizer.approximate._variant import Option

__all__ = ["ModelCache"]


class ModelCache:
    """Options in the memory of a device.

    With ``landlord`` eviction is the primal-dual algorithm for weighted paging with sizes (Young, *On-line file
    caching*). A load gives an option a credit of its energy, a hit renews it. When memory is short, all residents pay a
    rent in proportion to their size, and those without credit leave. Its energy for loads is at most k times that of
    any other algorithm, for k the largest number of options that fit. Bansal, Buchbinder and Naor prove a bound for the
    fractional form, whose N_t in section 4.2.1 must count distinct pages instead of requests. The rent that all have
    paid is one number, so that the next victim has the least sum of credit per byte and rent at its last use. Without
    ``landlord`` the least recently used option leaves.

    Parameters
    ----------
    capacity : int
        Bytes of memory.
    landlord : bool
        Whether eviction weighs energy and size. Default True.

    Attributes
    ----------
    free : int
        Bytes that are not used.
    protected : frozenset of Option
        Options that leave last.

    Examples
    --------
    >>> from optimizer.approximate import Variant
    >>> cheap, dear = (Variant(n, 0.9, 10, e, 1).options("task")[0] for n, e in [("cheap", 1), ("dear", 5)])
    >>> cache = ModelCache(20)
    >>> cache.insert(dear)
    >>> cache.insert(cheap)
    >>> [str(option) for option in cache.victims(5)]
    ['cheap (device)']
    """

    def __init__(self, capacity: int, *, landlord: bool = True) -> None:
        self.capacity = capacity
        self.free = capacity
        self.protected: frozenset[Option] = frozenset()
        self._landlord = landlord
        self._rent = 0.0
        self._clock = 0
        self._priority: dict[Option, tuple[float, int]] = {}

    def __contains__(self, option: Option) -> bool:
        return option in self._priority

    def __iter__(self) -> Iterator[Option]:
        return iter(self._priority)

    def renew(self, option: Option) -> None:
        """Record a use of a resident option."""
        self._clock += 1
        credit = self._rent + option.load_joules / option.memory_bytes if self._landlord else 0.0
        self._priority[option] = credit, self._clock

    def victims(self, size: int) -> list[Option]:
        """List the options to evict, in their order, before ``size`` bytes fit."""
        if size <= self.free:
            return []
        leaving, room = [], self.free
        for option in sorted(self._priority, key=lambda page: (page in self.protected, self._priority[page])):
            leaving.append(option)
            room += option.memory_bytes
            if room >= size:
                break
        return leaving

    def insert(self, option: Option) -> None:
        """Add an option, for which there must be room."""
        self.free -= option.memory_bytes
        self.renew(option)

    def evict(self, option: Option) -> None:
        """Remove a resident option; its credit per byte becomes the rent of the others."""
        self._rent = max(self._rent, self._priority.pop(option)[0])
        self.free += option.memory_bytes
