"""Leases of task slots: slots that long-lived tasks of this process occupy, by Spark application."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SlotLease", "lease_slots", "leased_slots"]

_LOCK = threading.Lock()
_LEASED: Counter[str] = Counter()


class SlotLease:
    """Task slots that one owner of long-lived tasks occupies; made by :func:`lease_slots`."""

    def __init__(self, application: str, count: int) -> None:
        self._application = application
        self._count = count

    def release(self) -> None:
        """Return the slots; further calls change nothing."""
        with _LOCK:
            _LEASED[self._application] -= self._count
            self._count = 0


def lease_slots(spark: SparkSession, count: int, *, most: int | None = None) -> SlotLease | None:
    """Record that long-lived tasks occupy slots of the session's application.

    Parameters
    ----------
    spark : SparkSession
        Session whose tasks they are. Sessions of one application share its slots.
    count : int
        Number of slots.
    most : int, optional
        Largest number of leased slots, this lease included. Default: unlimited.

    Returns
    -------
    SlotLease or None
        The lease; ``None`` if fewer slots are left.
    """
    application = _application(spark)
    with _LOCK:
        if most is not None and _LEASED[application] + count > most:
            return None
        _LEASED[application] += count
    return SlotLease(application, count)


def leased_slots(spark: SparkSession) -> int:
    """Return the number of slots that long-lived tasks of the session's application occupy.

    Parameters
    ----------
    spark : SparkSession
        Session of the application.

    Returns
    -------
    int
        Slots of leases in this process.
    """
    with _LOCK:
        return _LEASED[_application(spark)]


def _application(spark: SparkSession) -> str:
    return spark.conf.get("spark.app.id", "") or ""
