"""Steering of running searches by users."""

from cerebro_spark.steering._client import Client
from cerebro_spark.steering._errors import ServerError, UnreachableServerError

__all__ = ["Client", "ServerError", "UnreachableServerError"]
