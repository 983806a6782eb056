"""EXECUTE: the code that runs inside a Spark executor (Arrow iterator functions, framework handlers)."""

from udfs._installation import check_packages, check_pyspark

__all__ = ["check_packages", "check_pyspark"]
