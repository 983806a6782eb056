"""DECIDE: the layer graph, cost models and planners. Imports no Spark, no torch and no Keras."""

from optimizer._version import __version__

__all__ = ["__version__"]
