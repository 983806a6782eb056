"""Python client of the server that steers searches."""

from __future__ import annotations

import json
import os
import time
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from cerebro_spark.steering._bulk_methods import BulkMethods
from cerebro_spark.steering._errors import UnreachableServerError
from cerebro_spark.steering._http import Connection
from cerebro_spark.steering._request_methods import RequestMethods
from optimizer.steering import Add, Clone, End, Extend, Pause, Prioritise, Resume, Stop, command_document
from udfs.access_tokens import program_token

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from optimizer.steering import Command

__all__ = ["Client"]

_SERVER = "http://127.0.0.1:8765"
_LOOK_S = 0.2


class Client(BulkMethods, RequestMethods):
    """Client of the server of ``cerebro serve``.

    Commands return at once with their record; the search carries them out after its units in flight.
    :meth:`wait` waits for the outcome. A request is repeated while the server is away; a command has a key, so that a
    repetition is not a second command.

    Parameters
    ----------
    server : str, optional
        URL of the server. Default: ``CEREBRO_SERVER``, or ``http://127.0.0.1:8765``.
    token : str, optional
        Access token. Default: ``CEREBRO_TOKEN``, or for a server on this machine the token file that it wrote.
    patience_s : float, optional
        Seconds for which a request is repeated while the server is away. Default 10.

    Raises
    ------
    InvalidArgumentError
        The URL is not valid.
    ServerError
        Raised by all methods: the server refused the request; ``status`` and ``code`` tell why.
    UnreachableServerError
        Raised by all methods: the server did not answer.

    Examples
    --------
    >>> def halve_rate(run):
    ...     client = Client()
    ...     worst = client.configurations(run, status="running", sort="-loss")[0]
    ...     client.stop(run, worst["trial"], revision=worst["revision"])
    ...     best = client.configurations(run, sort="loss")[0]
    ...     sent = client.clone(run, best["trial"], {"lr": best["params"]["lr"] / 2})
    ...     return client.wait(run, sent["id"])["result"]["trial"]
    >>> Client("127.0.0.1:8765")
    Traceback (most recent call last):
    optimizer.errors.InvalidArgumentError: server must be a URL such as 'http://127.0.0.1:8765', got '127.0.0.1:8765'.
    """

    def __init__(self, server: str | None = None, token: str | None = None, *, patience_s: float = 10.0) -> None:
        server = server or os.environ.get("CEREBRO_SERVER") or _SERVER
        self._connection = Connection(server, None, patience_s)
        self._connection = Connection(server, token or program_token(self._connection.server), patience_s)

    @property
    def server(self) -> str:
        """URL of the server."""
        return self._connection.server

    def experiments(self) -> list[dict[str, Any]]:
        """Return all experiments, the latest first."""
        return list(self._connection.request("GET", "experiments")["experiments"])

    def experiment(self, run: str) -> dict[str, Any]:
        """Return an experiment: its settings, state and counts.

        Parameters
        ----------
        run : str
            Name of the run.
        """
        return dict(self._connection.request("GET", _of(run))["experiment"])

    def configurations(
        self, run: str, *, status: str = "", owner: str | None = None, sort: str = ""
    ) -> list[dict[str, Any]]:
        """Return the configurations of an experiment.

        Parameters
        ----------
        run : str
            Name of the run.
        status : str, optional
            Status such as ``"running"``. Default: any.
        owner : str, optional
            User who added them; ``""`` for the procedure. Default: any.
        sort : str, optional
            Field or metric, with ``-`` first for descending order. Default: the order of their starts.
        """
        query = {"status": status, "sort": sort} | ({} if owner is None else {"owner": owner})
        return list(self._connection.request("GET", f"{_of(run)}/configurations?{urlencode(query)}")["configurations"])

    def metrics(self, run: str, name: str = "", *, since: int = 0) -> dict[str, Any]:
        """Return the curve of a metric by configuration.

        Parameters
        ----------
        run : str
            Name of the run.
        name : str, optional
            Name of the metric. Default: the one that decides.
        since : int, optional
            ``next`` of an earlier answer, to return later epochs alone. Default 0.

        Returns
        -------
        dict
            ``curves`` with ``epochs`` and ``values`` by configuration, and ``next``.
        """
        query = urlencode({"name": name, "since": since})
        return self._connection.request("GET", f"{_of(run)}/metrics?{query}")

    def units(self, run: str, *, since: int = 0) -> dict[str, Any]:
        """Return the units of an experiment, ``next``, and whether there are ``more``.

        Parameters
        ----------
        run : str
            Name of the run.
        since : int, optional
            ``next`` of an earlier answer, to return later units alone. Default 0.
        """
        return self._connection.request("GET", f"{_of(run)}/units?{urlencode({'since': since})}")

    def commands(self, run: str) -> list[dict[str, Any]]:
        """Return all commands of an experiment in their order.

        Parameters
        ----------
        run : str
            Name of the run.
        """
        return list(self._connection.request("GET", f"{_of(run)}/commands")["commands"])

    def corrections(self, run: str, *, id_column: str = "id") -> list[dict[str, Any]]:
        """Return the corrected labels of an experiment, as :func:`cerebro_spark.debugging.relabel` takes them.

        Parameters
        ----------
        run : str
            Name of the run.
        id_column : str
            Column of the table that names rows. Default ``"id"``.

        Returns
        -------
        list of dict
            Records with the id, ``given_label``, ``corrected_label``, ``user`` and ``time`` (seconds since 1970). A
            label that the reviewer has kept is there as well.
        """
        listed = self._connection.request("GET", f"{_of(run)}/corrections")["corrections"]
        names = {
            "row": id_column,
            "given_label": "given_label",
            "label": "corrected_label",
            "user": "user",
            "created": "time",
        }
        return [{name: each[key] for key, name in names.items()} for each in listed]

    def effect(self, run: str, command: Command) -> dict[str, Any]:
        """Predict the effect of a command without sending it.

        Parameters
        ----------
        run : str
            Name of the run.
        command : Command
            Command of ``optimizer.steering``.
        """
        return dict(self._connection.request("POST", f"{_of(run)}/effects", command_document(command))["effect"])

    def send(self, run: str, command: Command, *, revision: int | None = None, key: str = "") -> dict[str, Any]:
        """Send a command, and return its record.

        Parameters
        ----------
        run : str
            Name of the run.
        command : Command
            Command of ``optimizer.steering``.
        revision : int, optional
            Revision of the configuration that the decision was based on: the command is refused with status 409 if
            the configuration has changed since. Default: no check.
        key : str, optional
            Key that makes repetitions one command. Default: a new one.

        Returns
        -------
        dict
            Record with ``id`` and ``state``.
        """
        body = command_document(command) | ({} if revision is None else {"revision": revision})
        headers = {"Idempotency-Key": key or str(uuid.uuid4())}
        return dict(self._connection.request("POST", f"{_of(run)}/commands", body, headers)["command"])

    def stop(self, run: str, trial: str, *, revision: int | None = None) -> dict[str, Any]:
        """End a configuration; its finished epochs count."""
        return self.send(run, Stop(trial), revision=revision)

    def extend(self, run: str, trial: str, epochs: int, *, revision: int | None = None) -> dict[str, Any]:
        """Train a configuration for more epochs, after those that its procedure grants it; it may have ended."""
        return self.send(run, Extend(trial, epochs), revision=revision)

    def pause(self, run: str, trial: str, *, revision: int | None = None) -> dict[str, Any]:
        """Pause a configuration after its unit in flight."""
        return self.send(run, Pause(trial), revision=revision)

    def resume(self, run: str, trial: str, *, revision: int | None = None) -> dict[str, Any]:
        """Resume a configuration that a user has paused."""
        return self.send(run, Resume(trial), revision=revision)

    def prioritise(self, run: str, trial: str, *, revision: int | None = None) -> dict[str, Any]:
        """Assign units of a configuration before those of others."""
        return self.send(run, Prioritise(trial), revision=revision)

    def end(self, run: str) -> dict[str, Any]:
        """End a search; all configurations keep their finished epochs."""
        return self.send(run, End())

    def add(self, run: str, params: Mapping[str, Any], *, epochs: int | None = None) -> dict[str, Any]:
        """Train another configuration.

        Parameters
        ----------
        run : str
            Name of the run.
        params : mapping
            Hyperparameters by name.
        epochs : int, optional
            Number of epochs. Default: as many as the search gives its best configurations.
        """
        return self.send(run, Add(params, epochs))

    def clone(
        self,
        run: str,
        trial: str,
        params: Mapping[str, Any] | None = None,
        *,
        epoch: int | None = None,
        epochs: int | None = None,
    ) -> dict[str, Any]:
        """Train a copy of a configuration on with other hyperparameters.

        Parameters
        ----------
        run : str
            Name of the run.
        trial : str
            Id of the configuration.
        params : mapping, optional
            Hyperparameters that differ. Default: none.
        epoch : int, optional
            Finished epoch to copy. Default: the last one.
        epochs : int, optional
            Number of epochs. Default: as many as the search gives its best configurations.
        """
        return self.send(run, Clone(trial, params or {}, epoch, epochs))

    def withdraw(self, command_id: str) -> dict[str, Any]:
        """Withdraw a pending command.

        Parameters
        ----------
        command_id : str
            ``id`` of its record.
        """
        return dict(self._connection.request("DELETE", f"commands/{quote(command_id, safe='')}")["command"])

    def wait(self, run: str, command_id: str, timeout_s: float | None = None) -> dict[str, Any]:
        """Wait until a command is carried out, refused or withdrawn, and return its record.

        Parameters
        ----------
        run : str
            Name of the run.
        command_id : str
            ``id`` of its record.
        timeout_s : float, optional
            Seconds to wait. Default: no limit.

        Raises
        ------
        TimeoutError
            The command is still pending; its runner may be away.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            record = next((each for each in self.commands(run) if each["id"] == command_id), None)
            if record is not None and record["state"] != "pending":
                return record
            if until is not None and time.monotonic() >= until:
                raise TimeoutError(f"command {command_id} is still pending after {timeout_s:g} s.")
            time.sleep(_LOOK_S)

    def follow(self, run: str = "", *, since: int = 0) -> Iterator[dict[str, Any]]:
        """Yield events as they happen, without gaps and duplicates, also after the connection broke.

        Parameters
        ----------
        run : str, optional
            Name of the run. Default: all runs.
        since : int, optional
            ``id`` of the last event that is known, or ``cursor`` of the experiment. Default 0: all events.

        Yields
        ------
        dict
            ``id``, ``run``, ``stream``, ``number`` and ``document``.
        """
        while True:
            try:
                for event in _events(self._connection.lines(f"events?{urlencode({'experiment': run})}", since)):
                    since = event["id"]
                    yield event
            except UnreachableServerError:
                pass
            # Raises if the server stays away.
            self._connection.request("GET", "experiments")
            time.sleep(_LOOK_S)


def _of(run: str) -> str:
    return f"experiments/{quote(run, safe='')}"


def _events(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    fields: dict[str, str] = {}
    for line in lines:
        if not line:
            if "data" in fields:
                yield {"id": int(fields["id"]), **json.loads(fields["data"])}
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
