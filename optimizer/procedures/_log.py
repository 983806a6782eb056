"""Log of a procedure, and its replay."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from optimizer.procedures._documents import decision_document, read_decision, read_result, result_document
from optimizer.procedures._errors import DivergedLogError, LogError, ProcedureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from optimizer.procedures._decisions import Decision
    from optimizer.procedures._procedure import Procedure
    from optimizer.procedures._results import Result

__all__ = ["Exchange", "replay"]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Call of :meth:`Procedure.ask`, with its results and its decisions."""

    results: tuple[Result, ...]
    idle: int
    decisions: tuple[Decision, ...]

    @classmethod
    def with_procedure(cls, procedure: Procedure, results: Sequence[Result] = (), *, idle: int = 0) -> Exchange:
        """Ask a procedure, and record the call."""
        told = tuple(results)
        return cls(told, idle, tuple(procedure.ask(told, idle=idle)))

    def document(self) -> dict[str, Any]:
        """Write the exchange as plain data."""
        return {
            "results": [result_document(result) for result in self.results],
            "idle": self.idle,
            "decisions": [decision_document(decision) for decision in self.decisions],
        }

    @classmethod
    def of(cls, document: Any) -> Exchange:
        """Read an exchange from its document.

        Raises
        ------
        LogError
            The document is invalid; the message names the field.
        """
        if not isinstance(document, Mapping) or document.keys() != {"results", "idle", "decisions"}:
            raise LogError(f"exchange must be a mapping of results, idle and decisions, got {document!r}")
        idle = document["idle"]
        if isinstance(idle, bool) or not isinstance(idle, int) or idle < 0:
            raise LogError(f"idle must be a number of slots, got {idle!r}")
        for name in ("results", "decisions"):
            if not isinstance(document[name], list):
                raise LogError(f"{name} must be a list, got {document[name]!r}")
        return cls(
            tuple(read_result(result) for result in document["results"]),
            idle,
            tuple(read_decision(decision) for decision in document["decisions"]),
        )


def replay(procedure: Procedure, log: Iterable[Exchange]) -> None:
    """Restore the state of a procedure in a new one by repeating its calls.

    Parameters
    ----------
    procedure : Procedure
        New procedure with the same arguments.
    log : iterable of Exchange
        All calls from the beginning.

    Raises
    ------
    DivergedLogError
        The procedure decides differently; the message has the first different decision. Do not use it any further.

    Examples
    --------
    >>> from optimizer.procedures import Listed
    >>> told = Exchange.with_procedure(Listed([{"lr": 0.1}], epochs=2))
    >>> resumed = Listed([{"lr": 0.1}], epochs=2)
    >>> replay(resumed, [told])
    >>> resumed.ledger["c000"].granted
    2
    >>> replay(Listed([{"lr": 0.2}], epochs=2), [told])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    optimizer.procedures._errors.DivergedLogError: decision 0 of call 0 differs: ...
    """
    for number, exchange in enumerate(log):
        try:
            decisions = procedure.ask(exchange.results, idle=exchange.idle)
        except ProcedureError as error:
            raise DivergedLogError(f"call {number} of the log fails with this procedure: {error}") from error
        for place, (logged, decided) in enumerate(zip_longest(exchange.decisions, decisions)):
            if _document(logged) != _document(decided):
                raise DivergedLogError(
                    f"decision {place} of call {number} differs: the log has {logged or 'none'}, this procedure "
                    f"decides {decided or 'none'}; resume with the same seed, space, settings and version"
                )


def _document(decision: Decision | None) -> dict[str, Any] | None:
    if decision is None:
        return None
    # Another version may word the reason of the same decision differently.
    return {key: value for key, value in decision_document(decision).items() if key != "reason"}
