"""Cascades: cheap models answer what they are sure of, and an oracle the rest, with a guarantee."""

from optimizer.cascades import Certificate
from vista_spark.cascades._cascade import Cascade
from vista_spark.cascades._model import CascadeModel
from vista_spark.cascades._sql import sql_cascade

__all__ = ["Cascade", "CascadeModel", "Certificate", "sql_cascade"]
