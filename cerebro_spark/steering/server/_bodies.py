"""Bodies of requests to the REST API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["CommandBody", "EndBody", "EventsBody", "OutcomeBody", "SettingsBody"]

_Count = Annotated[int | None, Field(ge=1, strict=True)]
# SQLite stores integers of 64 bits.
_Number = Annotated[int, Field(ge=0, lt=1 << 62, strict=True)]
_Text = Annotated[str, Field(max_length=1000)]


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
