"""Rounds: times at which a trial enters its next epoch."""

from __future__ import annotations

__all__ = ["ROUNDS"]

#: When a trial enters its next epoch, the default first. ``"rolling"``: as soon as its own results are written.
#: ``"together"``: once those of all trials in training are, as in the papers, so that workers idle at the end of each
#: epoch.
ROUNDS = ("rolling", "together")
