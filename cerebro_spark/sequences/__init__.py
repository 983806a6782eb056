"""Windows of the series of a DataFrame, and neighbourhoods in a graph."""

from cerebro_spark.sequences._neighbours import Neighbours
from cerebro_spark.sequences._window_facts import described_rows, window_facts
from cerebro_spark.sequences._window_rows import window_rows

__all__ = ["Neighbours", "described_rows", "window_facts", "window_rows"]
