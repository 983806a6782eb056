"""Models that answer requests within deadlines: backends, front ends, and what passes between them."""

from ._errors import (
    BadRequestError,
    ModelFailedError,
    NoSuchModelError,
    OverloadedError,
    RequestError,
    ServerStoppedError,
    TooLateError,
)
from ._router import Router, ServedModel, TensorSpec

__all__ = [
    "BadRequestError",
    "ModelFailedError",
    "NoSuchModelError",
    "OverloadedError",
    "RequestError",
    "Router",
    "ServedModel",
    "ServerStoppedError",
    "TensorSpec",
    "TooLateError",
]
