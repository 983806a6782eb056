"""Tasks of Airflow that run a command of cerebro-spark or a script; a retry resumes the run of the try before."""

from cerebro_spark.airflow._operator import CerebroOperator

__all__ = ["CerebroOperator"]
