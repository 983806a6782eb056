"""Decisions about ensembles: members that do not qualify, and greedy choices among the others."""

from optimizer.ensembles._elimination import Elimination
from optimizer.ensembles._greedy import Choice, choose_greedily

__all__ = ["Choice", "Elimination", "choose_greedily"]
