"""Inspection of a store: one read of all its files, without changes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cerebro_spark.hopper._journal import Journal
from optimizer.errors import CerebroError
from udfs.hopper import Checkpoints
from udfs.shards import FOLDER, check_shard, load_prepared
from udfs.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from udfs.store import Store

__all__ = ["Finding", "inspect_store"]

_RECORD = re.compile(r"[0-9]{6,}-[0-9a-f]{8}\.json")


@dataclass(frozen=True, slots=True)
class Finding:
    """A part of a store, and what is wrong with it.

    ``defect`` includes the remedy, and is empty where the part is intact.
    """

    what: str
    defect: str = ""


def inspect_store(store: Store) -> Iterator[Finding]:
    """Read all prepared data and runs of a store, and compare them with their digests.

    Raises
    ------
    udfs.store.StoreError
        The store cannot be read, or has neither prepared data nor runs: nothing can be said of such a place.

    Examples
    --------
    >>> def damaged(store):
    ...     return [finding.what for finding in inspect_store(store) if finding.defect]
    """
    prepared, runs = store.list(FOLDER), store.list("runs")
    if not prepared and not runs:
        raise StoreError(
            f"store must have prepared data or runs, got {store.uri}, which has none: it is not there, is empty, or is "
            "another folder. Name the folder that Store.from_uri() or --out got."
        )
    for name in prepared:
        yield from _prepared(store, name)
    for run in runs:
        yield from _run(store, run)


def _prepared(store: Store, name: str) -> Iterator[Finding]:
    try:
        prepared = load_prepared(store, name)
    except CerebroError as error:
        yield Finding(f"prepared data {name!r}", str(error))
        return
    for shard in prepared.shards:
        finding = _checked(
            f"{shard.split} shard {shard.partition} of {name!r}",
            lambda shard=shard: check_shard(prepared, shard.split, shard.partition),  # type: ignore[misc]
        )
        if not finding.defect and not shard.digest:
            finding = Finding(
                f"{finding.what} (written by a release without digests: it can be read, and that is all that is known)"
            )
        yield finding


def _run(store: Store, run: str) -> Iterator[Finding]:
    try:
        journal = Journal(store, run)
        journal.spec()
    except CerebroError as error:
        yield Finding(f"run {run!r}", str(error))
        return
    yield Finding(f"settings of run {run!r}")
    yield _checked(f"units of run {run!r}", journal.events)
    yield _checked(f"decisions of run {run!r}", journal.orders)
    checkpoints = Checkpoints(store, run)
    for trial_id in journal.trial_ids():
        yield _checked(f"results of {trial_id} in run {run!r}", lambda trial_id=trial_id: journal.results(trial_id))  # type: ignore[misc]
        yield _checked(f"log of {trial_id} in run {run!r}", lambda trial_id=trial_id: journal.log(trial_id))  # type: ignore[misc]
        records = checkpoints.records(trial_id)
        names = [name for name in store.list("runs", run, "checkpoints", trial_id) if _RECORD.fullmatch(name)]
        if len(records) < len(names):
            yield Finding(f"records of {trial_id} in run {run!r}", "one is damaged: resume uses the one before")
        for record in records:
            yield _checked(
                f"checkpoint of {trial_id} in run {run!r} after {record.version} units",
                lambda record=record: checkpoints.read(record.trial_id, record.version, record.digest),  # type: ignore[misc]
            )


def _checked(what: str, read: Callable[[], object]) -> Finding:
    try:
        read()
    except CerebroError as error:
        return Finding(what, str(error))
    return Finding(what)
