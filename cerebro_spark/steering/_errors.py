"""Errors of clients of the server."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["ServerError", "UnreachableServerError"]


class ServerError(CerebroError, RuntimeError):
    """Request that the server refused.

    Parameters
    ----------
    message : str
        Sentence of the server, with the remedy.
    status : int
        HTTP status; 0 without an answer.
    code : str
        Word that programs compare, such as ``"conflict"``.
    """

    def __init__(self, message: str, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


class UnreachableServerError(ServerError, ConnectionError):
    """Server that does not answer."""
