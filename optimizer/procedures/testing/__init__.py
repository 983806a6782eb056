"""The contract of a procedure as a test suite: subclass :class:`ProcedureContract`, and pytest collects the rest."""

from optimizer.procedures.testing._contract import ProcedureContract
from optimizer.procedures.testing._rehearsal import Rehearsal

__all__ = ["ProcedureContract", "Rehearsal"]
