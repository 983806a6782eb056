"""SQL functions on the workers: calls of a query, a batch of arguments at a time."""

from udfs.sql._arguments import CallError, as_arrow
from udfs.sql._cascades import CascadeCalls, SQLCascade
from udfs.sql._features import NetworkCalls, SQLNetwork
from udfs.sql._predictions import PredictionCalls, SQLModel

__all__ = [
    "CallError",
    "CascadeCalls",
    "NetworkCalls",
    "PredictionCalls",
    "SQLCascade",
    "SQLModel",
    "SQLNetwork",
    "as_arrow",
]
