"""Contract of a procedure as a test suite, for subclasses of :class:`ProcedureContract`."""

from optimizer.procedures.testing._contract import ProcedureContract
from optimizer.procedures.testing._rehearsal import Rehearsal

__all__ = ["ProcedureContract", "Rehearsal"]
