"""Search that was launched in a pool, and its record in the store."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from udfs.documents import document, write_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from cerebro_spark.tune import Experiment, Search
    from udfs.shards import PreparedData
    from udfs.store import Store

__all__ = ["Launched", "delete_record", "launch_record", "launched_runs", "write_record"]

_FOLDER = "launches"
_REMEDY = "launch the search again under another name"


@dataclass(frozen=True, slots=True)
class Launched:
    """Running or ended search of a pool.

    Parameters
    ----------
    search : Search
        Search with its trainer, space and settings.
    prepared : PreparedData
        Shards that it trains on.
    experiment : Experiment
        Handle of the run.
    document : dict
        Launch document.
    convert_table : callable, optional
        Converts the table of the document to the columns that the model reads. Default: none.
    labels : dict of str to list of str, optional
        Names of the classes of each label that is a string, in the order of their numbers. Default: none.
    """

    search: Search
    prepared: PreparedData
    experiment: Experiment
    document: dict[str, Any]
    convert_table: Callable[[Any], Any] | None = None
    labels: dict[str, list[str]] = field(default_factory=dict)


def write_record(store: Store, run: str, record: dict[str, Any]) -> None:
    """Write the record of a launch, or replace it, so that another process can continue the run."""
    write_document(store, record, _FOLDER, f"{run}.json")


def launch_record(store: Store, run: str) -> dict[str, Any] | None:
    """Read the record of a launch; None if the run was not launched in a pool.

    The record has ``request`` (id), ``pool``, ``document``, ``prepared`` (name of the shards), ``labels`` (names of the
    classes of string labels) and ``ended``.
    """
    if not store.exists(_FOLDER, f"{run}.json"):
        return None
    with document(store, _FOLDER, f"{run}.json", remedy=_REMEDY) as record:
        return dict(record)


def delete_record(store: Store, run: str) -> None:
    """Delete the record of a launch that did not begin."""
    store.delete(_FOLDER, f"{run}.json")


def launched_runs(store: Store) -> list[str]:
    """List the runs that have a record."""
    return sorted(name.removesuffix(".json") for name in store.list(_FOLDER) if name.endswith(".json"))
