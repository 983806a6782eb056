"""Errors of requests and of the start of a server."""

from __future__ import annotations

from optimizer.errors import CerebroError

__all__ = ["ApiError", "ExposedServerError", "PortInUseError"]


class ApiError(CerebroError):
    """Error that a route replies as ``{"error": {"code": ..., "message": ...}}``.

    Parameters
    ----------
    status : int
        HTTP status.
    code : str
        Word that programs compare.
    message : str
        Sentence for people, with the remedy.
    headers : dict of str to str, optional
        Headers of the response.

    Examples
    --------
    >>> raise ApiError(409, "conflict", "revision must be 4, got 3. Load the page again.")
    Traceback (most recent call last):
    udfs.web._errors.ApiError: revision must be 4, got 3. Load the page again.
    """

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.headers = status, code, headers or {}


class ExposedServerError(CerebroError, ValueError):
    """Server that other machines would reach without the protection of passwords and TLS."""


class PortInUseError(CerebroError, OSError):
    """Another process listens at the port."""
