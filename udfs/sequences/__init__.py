"""Windows over the series of a shard, which are views of its rows, and windows of a DataFrame's series."""

from udfs.sequences._common_windows import common_windows, window_parts
from udfs.sequences._series_windows import SeriesWindows
from udfs.sequences._windows import Windows

__all__ = ["SeriesWindows", "Windows", "common_windows", "window_parts"]
