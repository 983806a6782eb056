"""Runs of a store, read into the database from their journals."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, update

from cerebro_spark.steering.server._board import Board
from cerebro_spark.steering.server._records import append_state, experiment_row, next_numbers
from cerebro_spark.steering.server._reports import replace_orders, store_events
from cerebro_spark.steering.server._tables import EXPERIMENTS
from optimizer.errors import CerebroError
from optimizer.steering import document_digest
from udfs.documents import document
from udfs.web import Changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Engine

    from optimizer.steering import Progress
    from udfs.store import Store

__all__ = ["IndexedRun", "index_store"]

# Folder and file names of each stream.
_FILES = {"orders": ("orders", "order"), "units": ("events", "part")}
_TRIAL = re.compile(r"c([0-9]+)\.json")
_BATCH = 200
_REMEDY = "put a copy of it back"


@dataclass(frozen=True, slots=True)
class IndexedRun:
    """Outcome of reading a run.

    Parameters
    ----------
    run : str
        Name of the run.
    documents : int
        Number of documents that the database did not have.
    problem : str
        Reason why the rest of the run could not be read; ``""`` for none.
    """

    run: str
    documents: int
    problem: str = ""


def index_store(engine: Engine, uri: str) -> Iterator[IndexedRun]:
    """Read the journals of all searches of a store into the database.

    Runs that :func:`cerebro_spark.debugging.find_label_errors` trains are no searches, and are left out.

    Documents that the database has already are left as they are, so that reading a store again adds what is missing.
    This function imports Arrow, so that a server calls it in another process.

    Parameters
    ----------
    engine : sqlalchemy.Engine
        Engine of :func:`open_database`.
    uri : str
        URI of the store, or a folder.

    Yields
    ------
    IndexedRun
        Outcome by run; a damaged run does not keep others from being read.

    Raises
    ------
    udfs.store.StoreError
        The store cannot be read.
    """
    from udfs.store import Store

    store, board = Store.from_uri(uri), Board(engine, Changes())
    for run in store.list("runs"):
        if store.exists("runs", run, "run.json") and not _leaves_folds_out(store, run):
            progress = [0]
            try:
                _index_run(board, store, run, progress)
            except CerebroError as error:
                yield IndexedRun(run, progress[0], str(error))
            else:
                yield IndexedRun(run, progress[0])


def _leaves_folds_out(store: Store, run: str) -> bool:
    """Return True for a run whose configurations differ in the fold that they leave out; False if it is damaged."""
    from udfs.training import HELD_OUT_FOLD

    try:
        with document(store, "runs", run, "run.json", remedy=_REMEDY) as spec:
            return any(HELD_OUT_FOLD in each for each in spec.get("configs", ()))
    except CerebroError:  # reported when the run is read
        return False


def _index_run(board: Board, store: Store, run: str, count: list[int]) -> None:
    settings = _settings(store, run)
    first = next(_documents(store, run, "orders", 0), None)
    with board.writing() as connection:
        if experiment_row(connection, run) is None:
            now = time.time()
            values = {"run": run, "store": store.uri, "name": run, "session": "", "created": now}
            connection.execute(insert(EXPERIMENTS).values(**values, settings=settings))
        row = board.row(connection, run)
        replace_orders(connection, row.id, document_digest(first[1]) if first else "")
        due = next_numbers(connection, row.id)
    for stream in _FILES:
        waiting = _documents(store, run, stream, due[stream])
        while documents := list(islice(waiting, _BATCH)):
            with board.writing() as connection:
                store_events(connection, row, stream, documents)
            count[0] += len(documents)
    with board.writing() as connection:
        store_events(connection, row, "trials", list(_tracebacks(store, run)))
    with board.writing() as connection:
        if row.ended is None and not row.session and _is_over(board.progress(connection, row)):
            append_state(connection, row.id, "experiment", {"state": "ended", "error": ""})
            connection.execute(update(EXPERIMENTS).where(EXPERIMENTS.c.id == row.id).values(ended=time.time()))


def _is_over(progress: Progress) -> bool:
    """Return True if all configurations have ended, for a run that no runner has reported."""
    configurations = progress.configurations.values()
    return bool(configurations) and not any(each.is_live for each in configurations)


def _settings(store: Store, run: str) -> dict[str, Any]:
    with document(store, "runs", run, "run.json", remedy=_REMEDY) as spec:
        return {
            "metric": str(spec["metric"]),
            "mode": "max" if spec["larger_is_better"] else "min",
            "epochs": int(spec["epochs"]),
            "procedure": str(spec.get("procedure", "GridSearch")),
            "parameters": {"trainer": str(spec["trainer"])},
            "workers": max(1, len({unit["worker"] for _, each in _documents(store, run, "units", 0) for unit in each})),
        }


def _documents(store: Store, run: str, stream: str, number: int) -> Iterator[tuple[int, Any]]:
    """Yield the numbered documents of a stream until the first that is missing."""
    folder, word = _FILES[stream]
    names = set(store.list("runs", run, folder))
    while (name := f"{word}-{number:06d}.json") in names:
        with document(store, "runs", run, folder, name, remedy=_REMEDY) as content:
            yield number, content
        number += 1


def _tracebacks(store: Store, run: str) -> Iterator[tuple[int, dict[str, str]]]:
    for name in store.list("runs", run, "trials"):
        if number := _TRIAL.fullmatch(name):
            with document(store, "runs", run, "trials", name, remedy=_REMEDY) as trial:
                if trial["traceback"]:
                    yield int(number[1]), {"trial": name.removesuffix(".json"), "traceback": str(trial["traceback"])}
