"""Print the graph of a metadata store as JSON: the environment of ML Metadata runs it."""

from __future__ import annotations

import json
import sys
from typing import Any

from ml_metadata.metadata_store import MetadataStore
from ml_metadata.proto import metadata_store_pb2 as mlmd


def plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


def node(each: Any, types: dict[int, str]) -> dict[str, Any]:
    properties = {name: plain(value) for name, value in [*each.properties.items(), *each.custom_properties.items()]}
    return {"type": types[each.type_id], "name": each.name} | properties


def main(file: str) -> None:
    config = mlmd.ConnectionConfig()
    config.sqlite.filename_uri = file
    store = MetadataStore(config)
    of_executions = {each.id: each.name for each in store.get_execution_types()}
    of_artifacts = {each.id: each.name for each in store.get_artifact_types()}
    executions = {each.id: each for each in store.get_executions()}
    artifacts = {each.id: each for each in store.get_artifacts()}
    events = store.get_events_by_execution_ids(list(executions))
    graph = {
        "contexts": [node(each, {each.type_id: each.type}) for each in store.get_contexts()],
        "executions": [
            node(each, of_executions) | {"state": mlmd.Execution.State.Name(each.last_known_state)}
            for each in executions.values()
        ],
        "artifacts": [
            node(each, of_artifacts) | {"uri": each.uri, "state": mlmd.Artifact.State.Name(each.state)}
            for each in artifacts.values()
        ],
        "events": [
            (executions[each.execution_id].name, artifacts[each.artifact_id].name, mlmd.Event.Type.Name(each.type))
            for each in events
        ],
        "members": {
            context.name: [
                len(store.get_executions_by_context(context.id)),
                len(store.get_artifacts_by_context(context.id)),
            ]
            for context in store.get_contexts()
        },
    }
    print(json.dumps(graph))


if __name__ == "__main__":
    main(sys.argv[1])
