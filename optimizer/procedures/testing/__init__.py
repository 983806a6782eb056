"""The contract of a procedure as a test suite: subclass :class:`ProcedureContract`, and pytest collects the rest."""

from ._contract import ProcedureContract
from ._rehearsal import Rehearsal

__all__ = ["ProcedureContract", "Rehearsal"]
