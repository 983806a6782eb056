"""Runner of a search: reports its journal to a server, and carries out the commands of the server's users."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from cerebro_spark.steering._errors import ServerError, UnreachableServerError
from cerebro_spark.steering._http import Connection
from cerebro_spark.steering.runner._backoff import Backoff
from cerebro_spark.steering.runner._commands import outcome_of
from cerebro_spark.steering.runner._journal_documents import STREAMS, JournalDocuments
from optimizer.errors import CerebroError
from udfs.access_tokens import program_token
from udfs.node import SupervisedThread

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cerebro_spark.hopper import RunContext
    from cerebro_spark.steering.runner._commands import Steered

__all__ = ["Runner", "attach_runner", "connect", "is_refusal"]

_LOG = logging.getLogger(__name__)

# Between two looks for new documents of the journal.
_LOOK_S = 0.5
# Longest time between two attempts when the search is over.
_LAST_S = 1.0
# Seconds that a server may hold a request for commands.
_WAIT_S = 20
_DELIVERY_S = 30.0

# Refusals of a server that is busy.
_TRY_AGAIN = {408, 425, 429}

# Names this process, so that a server knows that pauses and priorities of an earlier one are over.
_SESSION = uuid.uuid4().hex


class Runner:
    """Two threads beside a search, which never waits for them: one reports its journal, one carries out commands.

    Documents are read from the store and identified by their stream and number, so that a server that was away or that
    lost its database gets each of them once. Commands are identified by their ids: the outcome of one that was carried
    out already is reported again.

    Parameters
    ----------
    connection : Connection
        Server.
    documents : JournalDocuments
        Journal of the run.
    run : str
        Name of the run.
    settings : mapping
        Settings of the run, as plain data.
    search : Steered
        Search that carries out commands.
    """

    def __init__(
        self,
        connection: Connection,
        documents: JournalDocuments,
        run: str,
        settings: Mapping[str, Any],
        search: Steered,
    ) -> None:
        self._connection = connection
        self._documents = documents
        self._run = run
        self._path = f"runner/experiments/{quote(run, safe='')}"
        self._settings = dict(settings)
        self._search = search
        # Numbers of the next documents to send, by stream.
        self._due = dict.fromkeys(STREAMS, 0)
        # Configurations that failed, whose errors are to be sent.
        self._failed: set[str] = set()
        self._outcomes: dict[str, dict[str, str]] = {}
        self._problem = ""
        self._registered = threading.Event()
        # The server does not know the run, or may have lost what it had: it is asked for the numbers.
        self._is_unknown = threading.Event()
        self._is_unknown.set()
        self._closing = threading.Event()
        self._delivered = threading.Event()
        self._error = ""
        self._threads = [
            SupervisedThread(self._report, f"journal of {run}"),
            SupervisedThread(self._obey, f"commands of {run}"),
        ]

    def start(self) -> None:
        """Start the threads, and return at once."""
        for thread in self._threads:
            thread.start()

    def close(self, error: str = "", *, limit_s: float | None = None) -> None:
        """Deliver the rest of the journal and the end of the search, and log a warning if the server is away.

        Parameters
        ----------
        error : str
            Error that ended the search. Default none.
        limit_s : float
            Longest time, in seconds. By default 30.
        """
        self._error = error
        self._closing.set()
        self._delivered.wait(_DELIVERY_S if limit_s is None else limit_s)
        if not self._delivered.is_set():
            # The thread goes on trying as long as this process lives.
            left = "the last documents"
            with suppress(CerebroError):  # the store may be away as well
                left = f"{sum(self._documents.count(stream, self._due[stream]) for stream in STREAMS)} documents"
            _LOG.warning(
                "run %s: %s and the end of the search could not be delivered: %s. The run is complete in its store, "
                "from which `cerebro index` reads it",
                self._run,
                left,
                self._problem or f"{self._connection.server} is slow",
            )

    def _report(self) -> None:
        """Send the documents of the journal as they are written, and in the end that the search is over."""
        backoff = Backoff()
        while not self._delivered.is_set():
            closing = self._closing.is_set()
            try:
                self._send_documents()
                if closing:
                    self._connection.request("POST", f"{self._path}/ended", {"error": self._error})
                    self._delivered.set()
            except CerebroError as error:
                self._is_unknown.set()
                self._note_problem(error)
                delay_s = backoff.next()
                time.sleep(min(delay_s, _LAST_S)) if closing else self._closing.wait(delay_s)
            else:
                self._note_problem(None)
                backoff.reset()
                self._closing.wait(_LOOK_S)

    def _send_documents(self) -> None:
        """Send all documents that the server does not have."""
        if self._is_unknown.is_set():
            self._is_unknown.clear()
            settings = {**self._settings, "session": _SESSION, "fingerprint": self._documents.fingerprint}
            self._due = _next_numbers(self._connection.request("PUT", self._path, settings))
            self._registered.set()
        problem: CerebroError | None = None
        for stream in STREAMS:
            try:
                while documents := self._documents.batch(stream, self._due[stream]):
                    body = {"stream": stream, "documents": documents}
                    due = _next_numbers(self._connection.request("POST", f"{self._path}/events", body))
                    if due[stream] <= documents[0][0]:
                        raise UnreachableServerError(f"the server did not store document {documents[0][0]} of {stream}")
                    self._due = due
                    self._failed |= {trial for _, document in documents for trial in _failed(document)}
            except ServerError as error:
                if not is_refusal(error):
                    raise
                # The other stream may be fine.
                problem = error
        self._send_errors()
        if problem is not None:
            raise problem

    def _send_errors(self) -> None:
        """Send the tracebacks of the configurations that failed."""
        for trial in sorted(self._failed):
            if traceback := self._documents.traceback(trial):
                numbered = [(int(trial[1:]), {"trial": trial, "traceback": traceback})]
                try:
                    body = {"stream": "trials", "documents": numbered}
                    self._connection.request("POST", f"{self._path}/events", body)
                except ServerError as error:
                    if not is_refusal(error):
                        raise
                    _LOG.warning("run %s: the error of %s was not accepted: %s", self._run, trial, error)
            self._failed.discard(trial)

    def _obey(self) -> None:
        """Carry out the commands of the server in their order."""
        backoff = Backoff()
        while not self._registered.wait(_LOOK_S):
            if self._closing.is_set():
                return
        while not self._closing.is_set():
            try:
                reply = self._connection.request("GET", f"{self._path}/commands?wait={_WAIT_S}")
                problems = [self._settle(record) for record in _records(reply)]
            except CerebroError as error:
                problems = [error]
                if is_refusal(error):
                    self._is_unknown.set()
            if any(problems):
                self._closing.wait(backoff.next())
            else:
                backoff.reset()

    def _settle(self, record: Mapping[str, Any]) -> CerebroError | None:
        """Carry out a command unless it was carried out already, report its outcome, and return what went wrong."""
        ident = str(record["id"])
        if ident not in self._outcomes:
            if self._closing.is_set():
                return None
            self._outcomes[ident] = outcome_of(record, self._search)
        try:
            self._connection.request("POST", f"{self._path}/commands/{quote(ident, safe='')}", self._outcomes[ident])
        except ServerError as error:
            if is_refusal(error):
                _LOG.warning("run %s: the outcome of command %s was not accepted: %s", self._run, ident, error)
            return error
        return None

    def _note_problem(self, error: CerebroError | None) -> None:
        """Log the first error since the server answered last, and that it answers again."""
        if error is not None and not self._problem:
            _LOG.warning("run %s goes on without its server, and is reported later: %s", self._run, error)
        elif error is None and self._problem:
            _LOG.warning("run %s is reported to %s again", self._run, self._connection.server)
        self._problem = "" if error is None else str(error)


def connect(server: str) -> Connection:
    """Return the connection of a runner to a server, which need not answer yet.

    Parameters
    ----------
    server : str
        Address, such as ``"http://127.0.0.1:8765"``; it may have a path.

    Raises
    ------
    InvalidArgumentError
        ``server`` is no address.
    TokenFileError
        Other users of the machine can read the token file.

    Examples
    --------
    >>> connect("http://127.0.0.1:8765/").server
    'http://127.0.0.1:8765'
    """
    address = Connection(server, None, 0.0).server
    return Connection(address, program_token(address), 0.0)


def attach_runner(
    connection: Connection, context: RunContext, search: Steered, details: Mapping[str, Any] | None = None
) -> Runner:
    """Start a runner for a run.

    Parameters
    ----------
    connection : Connection
        Server.
    context : RunContext
        Settings and resources of the run.
    search : Steered
        Search that carries out commands.
    details : mapping, optional
        Further settings for the server's pages. By default none.

    Returns
    -------
    Runner
        Runner, whose threads are started.
    """
    spec = context.spec
    store = context.prepared.store
    recorded = asdict(spec)
    parameters = {name: recorded[name] for name in ("trainer", "seed", "policy", "rounds", "replicas", "keep")}
    settings = {
        **(details or {}),
        "name": spec.run,
        "store": store.uri,
        "metric": spec.metric,
        "mode": spec.mode,
        "epochs": spec.epochs,
        "procedure": spec.procedure,
        "parameters": parameters,
        "workers": context.backend.num_workers,
    }
    runner = Runner(connection, JournalDocuments(store, spec.run), spec.run, settings, search)
    runner.start()
    return runner


def is_refusal(error: CerebroError) -> bool:
    """Check whether the server refused a request, which it would again."""
    return isinstance(error, ServerError) and 300 <= error.status < 500 and error.status not in _TRY_AGAIN


def _next_numbers(reply: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of the next document of each stream."""
    numbers = reply.get("next")
    if not isinstance(numbers, dict) or not all(isinstance(numbers.get(stream), int) for stream in STREAMS):
        raise UnreachableServerError(
            f"the server did not reply with the numbers of the next documents: {str(reply)[:200]}"
        )
    return {stream: max(0, numbers[stream]) for stream in STREAMS}


def _failed(document: Any) -> list[str]:
    """List the configurations that an order reports as ended by an error."""
    results = document["results"] if isinstance(document, dict) else ()
    return [result["trial"] for result in results if result.get("result") == "ended"]


def _records(reply: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the commands of a reply that can be carried out."""
    records = reply.get("commands")
    if not isinstance(records, list) or not all(isinstance(each, dict) and "id" in each for each in records):
        raise UnreachableServerError(f"the server did not reply with commands: {str(reply)[:200]}")
    return records
