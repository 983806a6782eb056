"""Requests of users in an order of the journal, and the configurations that they led to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Origin", "origins"]

# Reason of a decision that starts a configuration of the user, in the order of the requests.
_ADDED = "added by the user"


@dataclass(frozen=True, slots=True)
class Origin:
    """Request of a user that an order carried out.

    Parameters
    ----------
    trial_id : str
        Configuration that was added, stopped or extended; ``""`` for the end of the search.
    kind : {"added", "stopped", "extended", "ended"}
        Kind of the request.
    command : str
        Id of the command; ``""`` for a request without one.
    user : str
        User of the command; ``""`` for a request without one.
    """

    trial_id: str
    kind: str
    command: str = ""
    user: str = ""


def origins(order: Mapping[str, Any]) -> list[Origin]:
    """List the requests of users in an order.

    Parameters
    ----------
    order : mapping
        Document that :func:`check_event` accepts for the stream ``"orders"``.

    Returns
    -------
    list of Origin
        Requests in their order.

    Examples
    --------
    >>> origin = {"command": "8f14", "user": "ada", "at": "2026-11-29T12:00:00Z"}
    >>> request = {"result": "stopped", "trial": "c003", "reason": "stopped by the user", "origin": origin}
    >>> origins({"results": [request], "decisions": []})
    [Origin(trial_id='c003', kind='stopped', command='8f14', user='ada')]
    """
    started = (
        decision["trial"]
        for decision in order["decisions"]
        if decision["decision"] == "start" and decision["reason"] == _ADDED
    )
    listed = []
    for result in order["results"]:
        kind, origin = result["result"], result.get("origin") or {}
        command, user = origin.get("command", ""), origin.get("user", "")
        if kind == "added":
            listed.append(Origin(next(started, ""), kind, command, user))
        elif kind in {"stopped", "extended"}:
            listed.append(Origin(result["trial"], kind, command, user))
        elif kind == "out of time" and origin:
            listed.append(Origin("", "ended", command, user))
    return listed
