"""Errors of requests without an answer; an HTTP front end maps each class to a status code."""

from __future__ import annotations

__all__ = [
    "BadRequestError",
    "ModelFailedError",
    "NoSuchModelError",
    "OverloadedError",
    "RequestError",
    "ServerStoppedError",
    "TooLateError",
    "error_of",
]


class RequestError(RuntimeError):
    """Base class of errors of requests that were not answered."""


class BadRequestError(RequestError, ValueError):
    """The model does not accept the inputs: a name, a shape, a type, or an image that cannot be decoded."""


class NoSuchModelError(RequestError, LookupError):
    """The model, or the version of it, is not deployed."""


class OverloadedError(RequestError):
    """The backends cannot answer in time, or no backend is connected. Nothing was computed.

    Parameters
    ----------
    retry_after_s : float
        Seconds after which another try may succeed.
    """

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooLateError(RequestError, TimeoutError):
    """The deadline passed, or would have passed, before an answer was ready."""


class ModelFailedError(RequestError):
    """The model raised an error on these inputs."""


class ServerStoppedError(RequestError):
    """The server was stopped while the request waited."""


def error_of(failure: str, message: str) -> RequestError:
    """Return the error of a backend's answer."""
    kinds: dict[str, type[RequestError]] = {"bad": BadRequestError, "late": TooLateError, "failed": ModelFailedError}
    return kinds.get(failure, OverloadedError)(message)
