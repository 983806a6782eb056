"""SQL functions of trained networks: ``predict_tuned`` in a session's queries."""

from cerebro_spark.sql._register import register_sql

__all__ = ["register_sql"]
