"""Data debugging: find label errors, copies, outliers and weak slices, correct labels, and compare models."""

from cerebro_spark.debugging._comparison import ModelComparison, compare_models
from cerebro_spark.debugging._corrections import relabel
from cerebro_spark.debugging._influence import find_influential_rows
from cerebro_spark.debugging._label_errors import find_label_errors
from cerebro_spark.debugging._near_duplicates import find_leaks, find_near_duplicates
from cerebro_spark.debugging._outliers import find_outliers
from cerebro_spark.debugging._slices import find_slices

__all__ = [
    "ModelComparison",
    "compare_models",
    "find_influential_rows",
    "find_label_errors",
    "find_leaks",
    "find_near_duplicates",
    "find_outliers",
    "find_slices",
    "relabel",
]
