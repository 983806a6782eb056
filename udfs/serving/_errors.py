"""Why a request has no answer; a front end has a status code for each."""

from __future__ import annotations

__all__ = [
    "BadRequestError",
    "ModelFailedError",
    "NoSuchModelError",
    "OverloadedError",
    "RequestError",
    "ServerStoppedError",
    "TooLateError",
]


class RequestError(RuntimeError):
    """A request that was not answered."""


class BadRequestError(RequestError, ValueError):
    """Inputs that the model does not take: a name, a shape, a type, an image that cannot be decoded."""


class NoSuchModelError(RequestError, LookupError):
    """A model, or a version of it, that is not deployed."""


class OverloadedError(RequestError):
    """More requests than the backends answer in time, or none is there just now: nothing was computed.

    Parameters
    ----------
    message : str
    retry_after_s : float
        When another try may succeed.
    """

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooLateError(RequestError, TimeoutError):
    """The deadline went by, or would have, before an answer was there."""


class ModelFailedError(RequestError):
    """The model raised an error on these inputs."""


class ServerStoppedError(RequestError):
    """The server was stopped while the request waited."""
