"""Commands that steer a running search, and their JSON documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from optimizer.arguments import choice_error, whole, whole_or_none
from optimizer.errors import InvalidArgumentError, nearest
from optimizer.steering._plain_json import is_plain_json

__all__ = [
    "COMMANDS",
    "Add",
    "Clone",
    "Command",
    "End",
    "Extend",
    "Pause",
    "Prioritise",
    "Resume",
    "Stop",
    "command_document",
    "command_name",
    "command_trial",
    "read_command",
]


@dataclass(frozen=True, slots=True)
class Add:
    """Train another configuration.

    Parameters
    ----------
    params : mapping
        Hyperparameters by name, as JSON data; the journal's form of tuples is kept.
    epochs : int, optional
        Number of epochs. Default: as many as the search gives its best configurations.
    """

    params: Mapping[str, Any]
    epochs: int | None = None


@dataclass(frozen=True, slots=True)
class Clone:
    """Train a copy of a configuration on from a finished epoch, with other hyperparameters.

    Parameters
    ----------
    trial_id : str
        Id of the configuration to copy.
    params : mapping
        Hyperparameters that differ, by name.
    epoch : int, optional
        Finished epoch to copy, counted from 1. Default: the last one.
    epochs : int, optional
        Number of epochs that the copy trains. Default: as many as the search gives its best configurations.
    """

    trial_id: str
    params: Mapping[str, Any]
    epoch: int | None = None
    epochs: int | None = None


@dataclass(frozen=True, slots=True)
class Extend:
    """Train a configuration for more epochs, after those that its procedure grants it; it may have ended.

    Parameters
    ----------
    trial_id : str
        Id of the configuration.
    epochs : int
        Number of additional epochs.
    """

    trial_id: str
    epochs: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End a configuration; its finished epochs count."""

    trial_id: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Pause a configuration after its unit in flight."""

    trial_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Resume a configuration that a user has paused."""

    trial_id: str


@dataclass(frozen=True, slots=True)
class Prioritise:
    """Assign units of a configuration before those of others."""

    trial_id: str


@dataclass(frozen=True, slots=True)
class End:
    """End the search; all configurations keep their finished epochs."""


Command = Add | Clone | Extend | Stop | Pause | Resume | Prioritise | End

COMMANDS: dict[str, type[Command]] = {
    "add": Add,
    "clone": Clone,
    "extend": Extend,
    "stop": Stop,
    "pause": Pause,
    "resume": Resume,
    "prioritise": Prioritise,
    "end": End,
}
"""Classes of the commands by their names in documents."""

_ABOUT_TRIAL: dict[str, type[Stop | Pause | Resume | Prioritise]] = {
    "stop": Stop,
    "pause": Pause,
    "resume": Resume,
    "prioritise": Prioritise,
}
_NAMES = {kind: name for name, kind in COMMANDS.items()}
_LONGEST_ID = 128


def command_name(command: Command) -> str:
    """Return the name of a command in its document.

    Examples
    --------
    >>> command_name(Stop("c003"))
    'stop'
    """
    return _NAMES[type(command)]


def command_trial(command: Command) -> str | None:
    """Return the id of the configuration that a command is about; None for commands about the whole search.

    Examples
    --------
    >>> command_trial(Stop("c003")), command_trial(End())
    ('c003', None)
    """
    return None if isinstance(command, Add | End) else command.trial_id


def command_document(command: Command) -> dict[str, Any]:
    """Write a command as plain data.

    Examples
    --------
    >>> command_document(Clone("c003", {"lr": 0.01}))
    {'command': 'clone', 'trial': 'c003', 'params': {'lr': 0.01}, 'epoch': None, 'epochs': None}
    """
    values = {_field(each.name): getattr(command, each.name) for each in fields(command)}
    if "params" in values:
        values["params"] = dict(values["params"])
    return {"command": command_name(command), **values}


def read_command(document: Any) -> Command:
    """Read a command from its document.

    Parameters
    ----------
    document : object
        Mapping with the key ``command`` and the fields of the command. ``epoch``, ``epochs`` and the ``params`` of a
        clone may be missing.

    Returns
    -------
    Command
        Validated command.

    Raises
    ------
    InvalidArgumentError
        The document is invalid; the message names the field.

    Examples
    --------
    >>> read_command({"command": "pause", "trial": "c003"})
    Pause(trial_id='c003')
    >>> read_command({"command": "paus", "trial": "c003"})
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: command must be one of add, clone, extend, stop, pause, resume, prioritise, \
end, got 'paus'; did you mean 'pause'?
    """
    if not isinstance(document, Mapping):
        raise InvalidArgumentError(f"document of a command must be a mapping, got {_short(document)}.")
    name = document.get("command")
    if not isinstance(name, str) or name not in COMMANDS:
        raise InvalidArgumentError(choice_error("command", name, COMMANDS))
    allowed = {_field(each.name) for each in fields(COMMANDS[name])}
    for key in document.keys() - {"command"} - allowed:
        listed = ", ".join(sorted(allowed)) or "none"
        hint = nearest(key, allowed) if isinstance(key, str) else ""
        raise InvalidArgumentError(f"fields of {name} must be among {listed}, got {_short(key)}{hint or '.'}")
    if name == "end":
        return End()
    if name == "add":
        return Add(_params(document, required=True), _count(document, "epochs"))
    trial = _trial(document)
    if name == "clone":
        return Clone(trial, _params(document, required=False), _count(document, "epoch"), _count(document, "epochs"))
    if name == "extend":
        return Extend(trial, whole("epochs", document.get("epochs"), why="It is the number of additional epochs."))
    return _ABOUT_TRIAL[name](trial)


def _field(name: str) -> str:
    return "trial" if name == "trial_id" else name


def _trial(document: Mapping[str, Any]) -> str:
    trial = document.get("trial")
    if not isinstance(trial, str) or not 0 < len(trial) <= _LONGEST_ID:
        raise InvalidArgumentError(f"trial must be the id of a configuration such as 'c003', got {_short(trial)}.")
    return trial


def _count(document: Mapping[str, Any], name: str) -> int | None:
    return whole_or_none(name, document.get(name), why="Leave it out for the default.")


def _params(document: Mapping[str, Any], *, required: bool) -> dict[str, Any]:
    params = document.get("params")
    if params is None and not required:
        return {}
    if not isinstance(params, Mapping) or (required and not params):
        raise InvalidArgumentError(f"params must be a mapping of names to values, got {_short(params)}.")
    for name, value in params.items():
        if not isinstance(name, str) or not is_plain_json(value):
            raise InvalidArgumentError(
                "params must be JSON data of strings, finite numbers, booleans, null, lists and mappings, got "
                f"{_short(name)}: {_short(value)}."
            )
    return dict(params)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
