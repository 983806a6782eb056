"""Bodies of requests to the REST API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from optimizer.steering import is_plain_json

__all__ = [
    "BulkBody",
    "CommandBody",
    "EndBody",
    "EventsBody",
    "OutcomeBody",
    "PoolBody",
    "ReportBody",
    "RequestBody",
    "SettingsBody",
]

_Count = Annotated[int | None, Field(ge=1, strict=True)]
# SQLite stores integers of 64 bits.
_Number = Annotated[int, Field(ge=0, lt=1 << 62, strict=True)]
_Text = Annotated[str, Field(max_length=1000)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


def _check_plain(document: dict[str, Any]) -> dict[str, Any]:
    if not is_plain_json(document):
        raise ValueError("document must be JSON with finite numbers and at most 50 levels")
    return document


_Document = Annotated[dict[str, Any], AfterValidator(_check_plain)]


class CommandBody(BaseModel):
    """Command, and the revision of the configuration that it was based on."""

    model_config = ConfigDict(extra="forbid")

    command: str
    trial: str | None = None
    params: dict[str, Any] | None = None
    epoch: _Count = None
    epochs: _Count = None
    revision: _Number | None = None

    def document(self) -> dict[str, Any]:
        """Return the document of the command."""
        return self.model_dump(exclude={"revision"}, exclude_unset=True)


class BulkBody(BaseModel):
    """Command to the configurations that pass a filter, or configurations to add."""

    model_config = ConfigDict(extra="forbid")

    command: str
    where: _Document = {}
    configurations: Annotated[list[dict[str, Any]] | None, Field(min_length=1, max_length=1000)] = None
    params: dict[str, Any] | None = None
    epoch: _Count = None
    epochs: _Count = None

    def document(self) -> dict[str, Any]:
        """Return the body as plain data."""
        return self.model_dump(exclude_unset=True)


class SettingsBody(BaseModel):
    """Settings of a run."""

    store: _Text
    name: _Text = ""
    metric: _Text = "loss"
    mode: Literal["min", "max"] = "min"
    epochs: Annotated[int, Field(ge=1)] = 1
    procedure: _Text = ""
    parameters: Any = None
    workers: Annotated[int, Field(ge=1)] = 1
    session: _Text = ""
    fingerprint: _Text = ""
    description: _Text = ""
    pool: _Text = ""
    parent: _Text = ""
    search_space: Any = None
    feature_columns: Any = None
    label_columns: Any = None
    labels: Any = None
    left_out: Any = None
    source: Any = None
    tensorboard: _Text = ""


class EventsBody(BaseModel):
    """Numbered documents of a stream of the journal."""

    stream: Literal["orders", "units", "trials"]
    documents: list[tuple[_Number, Any]]


class OutcomeBody(BaseModel):
    """Outcome of a command."""

    state: Literal["applied", "refused"]
    message: Annotated[str, Field(max_length=10_000)] = ""
    trial: _Text = ""


class EndBody(BaseModel):
    """End of a run, with the error that caused it."""

    error: Annotated[str, Field(max_length=100_000)] = ""


class RequestBody(BaseModel):
    """Request to a pool; ``replaces`` is the id of an earlier one that it cancels."""

    model_config = ConfigDict(extra="forbid")

    kind: _Name
    document: _Document
    pool: _Name | None = None
    replaces: _Name | None = None


class PoolBody(BaseModel):
    """Settings of a pool; ``session`` names its process."""

    master: _Text = ""
    workers: Annotated[int, Field(ge=1)] = 1
    store: _Text = ""
    kinds: list[_Name]
    scripts: bool = False
    session: _Text = ""


class ReportBody(BaseModel):
    """State of a request, and what its handler has found out."""

    state: Literal["running", "done", "failed", "cancelled"]
    progress: Any = None
    result: Any = None
    message: Annotated[str, Field(max_length=10_000)] = ""
