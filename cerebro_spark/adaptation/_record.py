"""The record of a campaign in its store: what was done so far, so that another process goes on."""

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
    """One cycle.

    Parameters
    ----------
    run : str
        Id of its run.
    data : str
        Name of the data: all labels up to then.
    records : int
        Labelled records of it.
    capacity : int
        Records that the layers on disk were planned for.
    stored : list of str
        Expressions of these layers.
    warm : str
        Run of the cycle whose weights it begins with. Default ``""``: with the initial ones.
    costs : CycleCosts, optional
        What was predicted of it, and measured. None in records of earlier releases.
    """

    run: str
    data: str
    records: int
    capacity: int
    stored: list[str]
    warm: str = ""
    costs: CycleCosts | None = None

    @property
    def told(self) -> str:
        """One line for people."""
        told = f"{self.run}: {self.records:,} records"
        if self.costs is None or self.costs.measured is None:
            return told
        return f"{told}, {self.costs.predicted.total:,.2f} s predicted, {self.costs.measured.total:,.2f} s measured"


@dataclass(frozen=True, slots=True)
class CampaignRecord:
    """All cycles of a campaign, in the order in which they began.

    Parameters
    ----------
    store : Store
    name : str
    cycles : tuple of CycleRecord
    """

    store: Store
    name: str
    cycles: tuple[CycleRecord, ...] = ()

    FOLDER: ClassVar = "adaptations"

    def __post_init__(self) -> None:
        check_name(self.name, "an adaptation")

    @property
    def last(self) -> CycleRecord | None:
        """The last cycle that began; ``None`` before the first."""
        return self.cycles[-1] if self.cycles else None

    def noted(self, cycle: CycleRecord) -> CampaignRecord:
        """Write a cycle: as it begins, before its layers are computed, and what came of it.

        Raises
        ------
        udfs.store.StoreError
        """
        others = self.cycles[:-1] if self.last is not None and self.last.run == cycle.run else self.cycles
        return replace(self, cycles=(*others, cycle)).written()

    def written(self) -> CampaignRecord:
        """Write all cycles.

        Raises
        ------
        udfs.store.StoreError
        """
        content = {"version": _VERSION, "cycles": [asdict(each) for each in self.cycles]}
        write_document(self.store, content, self.FOLDER, self.name, "campaign.json")
        return self

    @classmethod
    def load(cls, store: Store, name: str) -> CampaignRecord:
        """Read a campaign; one without cycles where the store has none of that name.

        Raises
        ------
        RunError
            Its record is damaged.
        """
        new = cls(store, name)
        if not store.exists(cls.FOLDER, name, "campaign.json"):
            return new
        try:
            with document(store, cls.FOLDER, name, "campaign.json", remedy="put a copy of it back") as data:
                if typed(data, "version", int) != _VERSION:
                    raise ValueError(f"it is of version {data['version']}, and this release reads {_VERSION}")
                return replace(new, cycles=tuple(map(_cycle, typed(data, "cycles", list))))
        except DamagedError as error:
            raise RunError(f"adaptation {name!r}: {error}") from error


def _cycle(data: Any) -> CycleRecord:
    words = {name: typed(data, name, str) for name in ("run", "data")}
    counts = {name: typed(data, name, int) for name in ("records", "capacity")}
    stored = [str(expression) for expression in typed(data, "stored", list)]
    # The first campaigns had no warm starts.
    warm = typed(data, "warm", str) if "warm" in data else ""
    costs = None if data.get("costs") is None else CycleCosts.from_dict(data["costs"])
    return CycleRecord(**words, **counts, stored=stored, warm=warm, costs=costs)
