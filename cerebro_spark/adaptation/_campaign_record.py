"""Record of a campaign in its store, from which another process goes on."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from cerebro_spark.adaptation._rates import CycleCosts
from cerebro_spark.errors import RunError
from udfs.documents import DamagedError, document, typed, write_document
from udfs.names import check_name

if TYPE_CHECKING:
    from udfs.store import Store

__all__ = ["CampaignRecord", "CycleRecord"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class CycleRecord:
    """Record of a cycle.

    ``data`` is the name of the data with all labels up to this cycle; ``capacity`` is the number of records that the
    layers on disk were planned for, and ``stored`` their expressions. ``warm`` is the run whose weights this cycle
    begins with, ``""`` for the initial weights. ``costs`` are None in records of earlier releases.
    """

    run: str
    data: str
    records: int
    capacity: int
    stored: list[str]
    warm: str = ""
    costs: CycleCosts | None = None

    @property
    def summary(self) -> str:
        """Summary in one line."""
        line = f"{self.run}: {self.records:,} records"
        if self.costs is None or self.costs.measured is None:
            return line
        return f"{line}, {self.costs.predicted.total:,.2f} s predicted, {self.costs.measured.total:,.2f} s measured"


@dataclass(frozen=True, slots=True)
class CampaignRecord:
    """Cycles of a campaign, in the order in which they began."""

    store: Store
    name: str
    cycles: tuple[CycleRecord, ...] = ()

    FOLDER: ClassVar = "adaptations"

    def __post_init__(self) -> None:
        check_name(self.name, "an adaptation")

    @property
    def last(self) -> CycleRecord | None:
        """Last cycle that began; ``None`` before the first."""
        return self.cycles[-1] if self.cycles else None

    def write_cycle(self, cycle: CycleRecord) -> CampaignRecord:
        """Write a cycle as it begins, before its layers are computed, or with what it measured."""
        others = self.cycles[:-1] if self.last is not None and self.last.run == cycle.run else self.cycles
        return replace(self, cycles=(*others, cycle)).write()

    def write(self) -> CampaignRecord:
        """Write all cycles."""
        content = {"version": _VERSION, "cycles": [asdict(each) for each in self.cycles]}
        write_document(self.store, content, self.FOLDER, self.name, "campaign.json")
        return self

    @classmethod
    def load(cls, store: Store, name: str) -> CampaignRecord:
        """Read a campaign; it has no cycles if the store has none with the name.

        Raises
        ------
        RunError
            The record is damaged.
        """
        new = cls(store, name)
        if not store.exists(cls.FOLDER, name, "campaign.json"):
            return new
        try:
            with document(store, cls.FOLDER, name, "campaign.json", remedy="put a copy of it back") as data:
                if typed(data, "version", int) != _VERSION:
                    raise ValueError(f"version must be {_VERSION}, got {data['version']}")
                return replace(new, cycles=tuple(map(_cycle, typed(data, "cycles", list))))
        except DamagedError as error:
            raise RunError(f"adaptation {name!r}: {error}") from error


def _cycle(data: Any) -> CycleRecord:
    words = {name: typed(data, name, str) for name in ("run", "data")}
    counts = {name: typed(data, name, int) for name in ("records", "capacity")}
    stored = [str(expression) for expression in typed(data, "stored", list)]
    # Records of the first releases have no warm starts.
    warm = typed(data, "warm", str) if "warm" in data else ""
    costs = None if data.get("costs") is None else CycleCosts.from_dict(data["costs"])
    return CycleRecord(**words, **counts, stored=stored, warm=warm, costs=costs)
