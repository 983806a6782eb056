"""Tables of a run's record, those of the metadata manager (Cerebro, section 3.4)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cerebro_spark.hopper import Journal
from optimizer.procedures import Continue, Start
from udfs.driver import validate_arguments
from udfs.hopper import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pandas as pd

    from optimizer.procedures import Decision
    from udfs.store import Store

__all__ = ["TABLES", "run_tables"]

#: Columns of each table by name, with their pandas types. Rows of all tables have the run's id; ids, epochs and
#: partitions join them.
TABLES: dict[str, dict[str, str]] = {
    "experiments": {
        "run_id": "string",
        "procedure": "string",
        "trainer": "string",
        "prepared": "string",
        "metric": "string",
        "mode": "string",
        "epochs": "Int64",
        "seed": "Int64",
        "schedule": "string",
        "rounds": "string",
        "replicas": "Int64",
    },
    "configurations": {
        "run_id": "string",
        "trial_id": "string",
        "source_trial_id": "string",
        "source_epoch": "Int64",
        "status": "string",
        "reason": "string",
        "epochs": "Int64",
        "seconds": "Float64",
        "traceback": "string",
    },
    "params": {"run_id": "string", "trial_id": "string", "name": "string", "value": "string"},
    "metrics": {"run_id": "string", "trial_id": "string", "epoch": "Int64", "name": "string", "value": "float64"},
    "units": {
        "run_id": "string",
        "trial_id": "string",
        "kind": "string",
        "epoch": "Int64",
        "partition": "Int64",
        "worker": "string",
        "began": "Float64",
        "ended": "Float64",
        "seconds": "Float64",
        "fetched_bytes": "Int64",
        "from_store": "boolean",
    },
    "decisions": {
        "run_id": "string",
        "call": "Int64",
        "decision": "string",
        "trial_id": "string",
        "epochs": "Int64",
        "reason": "string",
    },
    "states": {
        "run_id": "string",
        "trial_id": "string",
        "version": "Int64",
        "epoch": "Int64",
        "partition": "Int64",
        "digest": "string",
        "uri": "string",
    },
    "artifacts": {"run_id": "string", "kind": "string", "trial_id": "string", "uri": "string"},
}


@validate_arguments
def run_tables(store: Store, run_id: str) -> dict[str, pd.DataFrame]:
    """Read a run's record from its store as tables, while it goes on or after it has ended in any way.

    The files that they are read from are written as things happen; another process may read them. The names are
    :data:`TABLES`. Epochs count from 0 and are a configuration's own; ``began`` and ``ended`` are seconds since the
    start of the run; values of ``params`` are JSON; ``states`` lists the checkpoints in the store, the unit that each
    followed, and where it is; ``artifacts`` the prepared data and logs. Raise RunError if there is no such run, or its
    record is damaged.

    Examples
    --------
    >>> from cerebro_spark import Store
    >>> def accuracies(spark, run_id):
    ...     metrics = run_tables(Store.from_uri("/data/cerebro"), run_id)["metrics"]
    ...     spark.createDataFrame(metrics).createOrReplaceTempView("metrics")
    ...     return spark.sql("select trial_id, max(value) from metrics where name = 'val_accuracy' group by trial_id")
    """
    import pandas as pd  # heavy, and not everybody asks

    journal = Journal(store, run_id)
    rows = _rows(journal)
    tables = {}
    for name, columns in TABLES.items():
        frame = pd.DataFrame([{"run_id": run_id, **row} for row in rows[name]], columns=list(columns))
        tables[name] = frame.astype(columns)
    return tables


def _rows(journal: Journal) -> dict[str, list[Mapping[str, Any]]]:
    spec = journal.spec()
    decided = [(call, decision) for call, exchange in enumerate(journal.orders()) for decision in exchange.decisions]
    starts = {decision.trial_id: decision for _, decision in decided if isinstance(decision, Start)}
    results = {trial_id: journal.results(trial_id) for trial_id in dict.fromkeys([*starts, *journal.trial_ids()])}
    checkpoints = Checkpoints(journal.store, journal.run)
    return {
        "experiments": [
            {
                "procedure": spec.procedure,
                "trainer": spec.trainer,
                "prepared": spec.prepared,
                "metric": ",".join(each.metric for each in spec.objectives),
                "mode": ",".join(each.mode for each in spec.objectives),
                "epochs": spec.epochs,
                "seed": spec.seed,
                "schedule": spec.policy,
                "rounds": spec.rounds,
                "replicas": spec.replicas,
            }
        ],
        "configurations": [
            _configuration(trial_id, starts.get(trial_id), record) for trial_id, record in results.items()
        ],
        "params": [
            {"trial_id": trial_id, "name": name, "value": json.dumps(value)}
            for trial_id, start in starts.items()
            for name, value in start.params.items()
        ],
        "metrics": [
            {"trial_id": trial_id, "epoch": epoch, "name": name, "value": value}
            for trial_id, record in results.items()
            for epoch, metrics in enumerate(record.get("history", ()))
            for name, value in metrics.items()
        ],
        "units": [
            {name: getattr(event, name) for name in TABLES["units"] if name != "run_id"} for event in journal.events()
        ],
        "decisions": [_decision(call, decision) for call, decision in decided],
        "states": list(_states(checkpoints, results)),
        "artifacts": list(_artifacts(journal)),
    }


def _configuration(trial_id: str, start: Start | None, record: Mapping[str, Any]) -> dict[str, Any]:
    source = None if start is None else start.source
    return {
        "trial_id": trial_id,
        "source_trial_id": None if source is None else source.trial_id,
        "source_epoch": None if source is None else source.epoch,
        "status": record.get("status", "running"),
        "reason": record.get("reason", "" if start is None else start.reason),
        "epochs": len(record.get("history", ())),
        "seconds": record.get("seconds", 0.0),
        "traceback": record.get("traceback", ""),
    }


def _decision(call: int, decision: Decision) -> dict[str, Any]:
    return {
        "call": call,
        "decision": type(decision).__name__.lower(),
        "trial_id": decision.trial_id,
        "epochs": decision.epochs if isinstance(decision, Start | Continue) else None,
        "reason": decision.reason,
    }


def _artifacts(journal: Journal) -> Iterable[dict[str, Any]]:
    """List what people look at: the prepared data, and what trials have printed."""
    store = journal.store
    yield {"kind": "prepared data", "trial_id": None, "uri": store.url("prepared", journal.spec().prepared)}
    for name in sorted(store.list("runs", journal.run, "logs")):
        place = store.url("runs", journal.run, "logs", name)
        yield {"kind": "log", "trial_id": name.removesuffix(".json"), "uri": place}


def _states(checkpoints: Checkpoints, trial_ids: Iterable[str]) -> Iterable[dict[str, Any]]:
    for trial_id in trial_ids:
        for record in checkpoints.records(trial_id):
            epoch, partition = record.visits[-1] if record.visits else (None, None)
            yield {
                "trial_id": trial_id,
                "version": record.version,
                "epoch": epoch,
                "partition": partition,
                "digest": record.digest,
                "uri": checkpoints.url(record),
            }
