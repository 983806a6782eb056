"""Rewrites of a program that leave its results as they are: constants folded, columns dropped, scalers taken in."""

from __future__ import annotations

from optimizer.compiling.rewriting._rebuild import Rewrite
from optimizer.compiling.rewriting._rewrite import Rewritten, rewrite

__all__ = ["Rewrite", "Rewritten", "rewrite"]
