"""Cascades: cheap models answer what they are sure of, and an oracle the rest, with a guarantee."""

from optimizer.cascades import Certificate
from vista_spark.cascades._cascade import Cascade
from vista_spark.cascades._members import as_member, bind
from vista_spark.cascades._model import CascadeModel
from vista_spark.cascades._persistence import MembersReader, MembersWriter
from vista_spark.cascades._sql import sql_cascade

__all__ = [
    "Cascade",
    "CascadeModel",
    "Certificate",
    "MembersReader",
    "MembersWriter",
    "as_member",
    "bind",
    "sql_cascade",
]
