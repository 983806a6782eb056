"""SQL functions of networks: ``cnn_features`` and ``text_features`` in a session's queries."""

from vista_spark.sql._register import register_sql

__all__ = ["register_sql"]
