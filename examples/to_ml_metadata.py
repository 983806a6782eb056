"""Write a run's record to an ML Metadata store, where TFX's tools read lineage.

``ml-metadata`` needs another protobuf than the rest of a cerebro-spark environment: run this program in one of its own
(``make mlmd-test`` makes ``.venv-mlmd``, with ml-metadata, pyarrow and pandas). The record comes as files::

    cerebro tables STORE RUN --out record                                # the environment of cerebro-spark
    python examples/to_ml_metadata.py record --sqlite metadata.db        # that of ml-metadata
    MLMD_PASSWORD=... python examples/to_ml_metadata.py record --mysql writer@host:3306/metadata

A run becomes a context, ``cerebro.Experiment``. Each configuration and each of its units is an execution,
``cerebro.Configuration`` and ``cerebro.Unit``. The prepared data, the states in the store, the metrics of each epoch
and the logs are artifacts: ``cerebro.Data``, ``cerebro.State``, ``cerebro.Metrics`` and ``cerebro.Log``. Events join
them: the state that a clone began with is its input, and an output of its source. What was written before is updated:
repeat it while the run goes on.

ML Metadata keeps six decimals of a number. So hyperparameters, custom properties of a configuration, are text where
they have decimals; metrics, custom properties too, are numbers, to compare by.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Tables = dict[str, list[dict[str, Any]]]

NAMES = ("experiments", "configurations", "params", "metrics", "units", "decisions", "states", "artifacts")

_KINDS = {int: mlmd.INT, float: mlmd.DOUBLE, str: mlmd.STRING}
_CONTEXT: dict[str, type] = {
    **dict.fromkeys(("procedure", "trainer", "data", "metric", "mode", "schedule", "rounds"), str),
    **dict.fromkeys(("epochs", "seed", "replicas"), int),
}
_EXECUTIONS: dict[str, tuple[int, dict[str, type]]] = {
    "cerebro.Configuration": (
        mlmd.ExecutionType.TRAIN,
        {
            **dict.fromkeys(("status", "reason", "source_trial_id", "traceback", "decisions"), str),
            "source_epoch": int,
            "epochs": int,
            "seconds": float,
        },
    ),
    "cerebro.Unit": (
        mlmd.ExecutionType.TRAIN,
        {
            **dict.fromkeys(("trial_id", "kind", "worker"), str),
            **dict.fromkeys(("epoch", "partition", "fetched_bytes"), int),
            **dict.fromkeys(("began", "ended", "seconds"), float),
        },
    ),
}
_ARTIFACTS: dict[str, tuple[int | None, dict[str, type]]] = {
    "cerebro.Data": (mlmd.ArtifactType.DATASET, {}),
    "cerebro.State": (
        mlmd.ArtifactType.MODEL,
        {"trial_id": str, "version": int, "epoch": int, "partition": int, "digest": str},
    ),
    "cerebro.Metrics": (mlmd.ArtifactType.METRICS, {"trial_id": str, "epoch": int}),
    "cerebro.Log": (None, {"trial_id": str}),
}
_STATES = {
    "finished": mlmd.Execution.COMPLETE,
    "stopped": mlmd.Execution.CANCELED,
    "running": mlmd.Execution.RUNNING,
    "paused": mlmd.Execution.RUNNING,
}
"""Of configurations; other statuses are failures."""


def read_tables(folder: Path) -> Tables:
    """Read what ``cerebro tables`` wrote, Parquet or CSV; a missing value is no key of its row.

    Parameters
    ----------
    folder : Path

    Raises
    ------
    FileNotFoundError
        A table is missing.
    """
    tables: Tables = {}
    for name in NAMES:
        parquet, csv = folder / f"{name}.parquet", folder / f"{name}.csv"
        if not parquet.exists() and not csv.exists():
            raise FileNotFoundError(
                f"{folder} has no {name}.parquet: write it with cerebro tables STORE RUN --out {folder}"
            )
        frame = pd.read_parquet(parquet) if parquet.exists() else _read_csv(csv)
        rows = frame.to_dict("records")
        tables[name] = [{str(key): value for key, value in row.items() if not pd.isna(value)} for row in rows]
    return tables


def _read_csv(file: Path) -> pd.DataFrame:
    # As text: a digest may look like a number, and a param's value is JSON.
    return pd.read_csv(file, dtype=str, keep_default_na=False, na_values=[""])


class Lineage:
    """The graph of one run in a metadata store.

    Parameters
    ----------
    store : MetadataStore
    tables : dict of str to list of dict
        Of one run, as :func:`read_tables` gives them.

    Raises
    ------
    ValueError
        The store has an experiment of that id over other data.
    """

    def __init__(self, store: MetadataStore, tables: Tables) -> None:
        self._store = store
        self._tables = tables
        (experiment,) = tables["experiments"]
        self._run = str(experiment["run_id"])
        (self._data,) = [each["uri"] for each in tables["artifacts"] if each["kind"] == "prepared data"]
        context = mlmd.ContextType(name="cerebro.Experiment")
        _declare(context, _CONTEXT)
        known = store.get_context_by_type_and_name("cerebro.Experiment", self._run)
        if known is not None and known.properties["data"].string_value != self._data:
            raise ValueError(
                f"the metadata store has another experiment {self._run!r}, over "
                f"{known.properties['data'].string_value}: this one is over {self._data}"
            )
        self._context = mlmd.Context(name=self._run, type_id=store.put_context_type(context, can_add_fields=True))
        _fill(self._context.properties, {**experiment, "data": self._data}, _CONTEXT)
        if known is not None:
            self._context.id = known.id
        self._types: dict[str, int] = {}
        for name, (base, properties) in _EXECUTIONS.items():
            of_execution = mlmd.ExecutionType(name=name, base_type=base)
            _declare(of_execution, properties)
            self._types[name] = store.put_execution_type(of_execution, can_add_fields=True)
        for name, (base, properties) in _ARTIFACTS.items():
            of_artifact = mlmd.ArtifactType(name=name)
            if base is not None:
                of_artifact.base_type = base
            _declare(of_artifact, properties)
            self._types[name] = store.put_artifact_type(of_artifact, can_add_fields=True)
        self._executions: dict[str, mlmd.Execution] = {}
        self._artifacts: dict[str, mlmd.Artifact] = {}
        # By the names of the execution and the artifact.
        self._joined: dict[tuple[str, str], int] = {}

    def write(self) -> dict[str, int]:
        """Write it, or what is new of it.

        Returns
        -------
        dict of str to int
            Nodes and events of the run in the store, those of earlier times included.
        """
        self._add_configurations()
        self._add_states()
        self._add_units()
        (context,) = self._store.put_contexts([self._context])
        executions = self._put_executions(context)
        artifacts = self._put_artifacts(context)
        self._store.put_attributions_and_associations(
            [mlmd.Attribution(artifact_id=each, context_id=context) for each in artifacts.values()],
            [mlmd.Association(execution_id=each, context_id=context) for each in executions.values()],
        )
        known = {
            (event.execution_id, event.artifact_id)
            for event in self._store.get_events_by_execution_ids(list(executions.values()))
        }
        events = {(executions[name], artifacts[thing]): way for (name, thing), way in self._joined.items()}
        self._store.put_events(
            [
                mlmd.Event(execution_id=execution, artifact_id=artifact, type=way)
                for (execution, artifact), way in events.items()
                if (execution, artifact) not in known
            ]
        )
        return {"executions": len(executions), "artifacts": len(artifacts), "events": len(known | events.keys())}

    def _add_configurations(self) -> None:
        params, decisions = _by_trial(self._tables["params"]), _by_trial(self._tables["decisions"])
        self._artifact("cerebro.Data", self._data, {}, uri=self._data)
        for row in self._tables["configurations"]:
            trial_id = row["trial_id"]
            name = self._named(trial_id)
            said = [
                {key: each.get(key) for key in ("decision", "epochs", "reason")} for each in decisions.get(trial_id, [])
            ]
            execution = self._execution("cerebro.Configuration", name, {**row, "decisions": json.dumps(said)})
            execution.last_known_state = _STATES.get(row["status"], mlmd.Execution.FAILED)
            for param in params.get(trial_id, []):
                value = json.loads(param["value"])
                # As a number, a rate of 1e-7 would be 0.
                _set(execution.custom_properties[param["name"]], repr(value) if isinstance(value, float) else value)
            self._join(name, self._data, mlmd.Event.INPUT)
        measured: dict[tuple[str, int], dict[str, float]] = {}
        for row in self._tables["metrics"]:
            measured.setdefault((row["trial_id"], int(row["epoch"])), {})[row["name"]] = float(
                row.get("value", float("nan"))
            )
        for (trial_id, epoch), values in measured.items():
            artifact = self._artifact(
                "cerebro.Metrics", self._named(trial_id, epoch), {"trial_id": trial_id, "epoch": epoch}
            )
            for metric, value in values.items():
                _set(artifact.custom_properties[metric], value)
            self._join(self._named(trial_id), artifact.name, mlmd.Event.OUTPUT)
        for row in self._tables["artifacts"]:
            if row["kind"] == "log":
                artifact = self._artifact("cerebro.Log", self._named(row["trial_id"], "log"), row, uri=row["uri"])
                self._join(self._named(row["trial_id"]), artifact.name, mlmd.Event.OUTPUT)

    def _add_states(self) -> None:
        shards = len({row["partition"] for row in self._tables["units"]})
        for row in self._tables["states"]:
            artifact = self._artifact(
                "cerebro.State", self._state(row["trial_id"], row["version"]), row, uri=row["uri"]
            )
            artifact.state = mlmd.Artifact.LIVE
            self._join(self._named(row["trial_id"]), artifact.name, mlmd.Event.OUTPUT)
        for row in self._tables["configurations"]:
            if "source_trial_id" in row:
                source, version = row["source_trial_id"], int(row["source_epoch"]) * shards
                name = self._state(source, version)
                if name not in self._artifacts:
                    # The store keeps a source's state until the clone has states of its own.
                    gone = {"trial_id": source, "version": version, "epoch": int(row["source_epoch"]) - 1}
                    self._artifact("cerebro.State", name, gone).state = mlmd.Artifact.DELETED
                self._join(self._named(source), name, mlmd.Event.OUTPUT)
                self._join(self._named(row["trial_id"]), name, mlmd.Event.INPUT)

    def _add_units(self) -> None:
        states = {
            (row["trial_id"], row["epoch"], row["partition"]): self._state(row["trial_id"], row["version"])
            for row in self._tables["states"]
            if "epoch" in row
        }
        # A unit of a lost worker is trained again.
        times: Counter[tuple[Any, ...]] = Counter()
        for row in self._tables["units"]:
            key = row["trial_id"], row["kind"], int(row["epoch"]), int(row["partition"])
            name = self._named(*key, times[key])
            times[key] += 1
            self._execution("cerebro.Unit", name, row).last_known_state = mlmd.Execution.COMPLETE
            self._join(name, self._data, mlmd.Event.INPUT)
            state = states.get((row["trial_id"], row["epoch"], row["partition"]))
            if state is not None and row["kind"] == "train":
                self._join(name, state, mlmd.Event.OUTPUT)

    def _named(self, *parts: object) -> str:
        return "/".join([self._run, *map(str, parts)])

    def _state(self, trial_id: str, version: object) -> str:
        return self._named(trial_id, "state", int(str(version)))

    def _execution(self, kind: str, name: str, row: Mapping[str, Any]) -> mlmd.Execution:
        execution = self._executions[name] = mlmd.Execution(name=name, type_id=self._types[kind])
        _fill(execution.properties, row, _EXECUTIONS[kind][1])
        return execution

    def _artifact(self, kind: str, name: str, row: Mapping[str, Any], *, uri: str = "") -> mlmd.Artifact:
        artifact = self._artifacts[name] = mlmd.Artifact(name=name, type_id=self._types[kind], uri=uri)
        _fill(artifact.properties, row, _ARTIFACTS[kind][1])
        return artifact

    def _join(self, execution: str, artifact: str, way: int) -> None:
        self._joined[execution, artifact] = way

    def _put_executions(self, context: int) -> dict[str, int]:
        known = {each.name: each.id for each in self._store.get_executions_by_context(context)}
        for name, execution in self._executions.items():
            if name in known:
                execution.id = known[name]
        return dict(zip(self._executions, self._store.put_executions(list(self._executions.values())), strict=True))

    def _put_artifacts(self, context: int) -> dict[str, int]:
        known = {each.name: each for each in self._store.get_artifacts_by_context(context)}
        # Data are those of other runs too.
        data = self._store.get_artifact_by_type_and_name("cerebro.Data", self._data)
        if data is not None:
            known[self._data] = data
        for name, artifact in self._artifacts.items():
            if name in known:
                artifact.id = known[name].id
        # States that the run has deleted since.
        states = [each for each in known.values() if each.type_id == self._types["cerebro.State"]]
        for each in states:
            if each.name not in self._artifacts and each.state == mlmd.Artifact.LIVE:
                each.state = mlmd.Artifact.DELETED
                self._artifacts[each.name] = each
        return dict(zip(self._artifacts, self._store.put_artifacts(list(self._artifacts.values())), strict=True))


def _declare(kind: Any, properties: Mapping[str, type]) -> None:
    for name, each in properties.items():
        kind.properties[name] = _KINDS[each]


def _fill(properties: Any, row: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    for name, kind in kinds.items():
        if name in row:
            _set(properties[name], kind(row[name]))


def _set(value: Any, content: object) -> None:
    if isinstance(content, bool) or not isinstance(content, int | float | str):
        value.string_value = json.dumps(content)
    elif isinstance(content, str):
        value.string_value = content
    elif isinstance(content, int) and -(2**63) <= content < 2**63:
        value.int_value = content
    else:
        value.double_value = float(content)


def _by_trial(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["trial_id"], []).append(row)
    return found


def _connection(given: argparse.Namespace) -> mlmd.ConnectionConfig:
    config = mlmd.ConnectionConfig()
    if given.sqlite is not None:
        config.sqlite.filename_uri = str(given.sqlite)
        config.sqlite.connection_mode = mlmd.SqliteMetadataSourceConfig.READWRITE_OPENCREATE
        return config
    parts = re.fullmatch(r"([^@]+)@([^:/]+)(?::(\d+))?/(\w+)", given.mysql)
    if parts is None:
        raise ValueError(f"--mysql {given.mysql}: user@host:port/database")
    user, host, port, database = parts.groups()
    config.mysql.user, config.mysql.host, config.mysql.database = user, host, database
    config.mysql.port = int(port or 3306)
    config.mysql.password = os.environ.get("MLMD_PASSWORD", "")
    return config


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a run's record.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments, by default the process's own.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the files that cerebro tables wrote")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--sqlite", type=Path, help="file of the metadata store; it is made")
    place.add_argument("--mysql", help="user@host:port/database; the password is in MLMD_PASSWORD")
    given = parser.parse_args(arguments)
    try:
        counts = Lineage(MetadataStore(_connection(given)), read_tables(given.folder)).write()
    except (FileNotFoundError, ValueError) as error:
        sys.exit(str(error))
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()))


if __name__ == "__main__":
    main()
