"""Video files as DataFrames with a row for each frame."""

from vista_spark.video._read import read

__all__ = ["read"]
