"""RUN models over DataFrames: feature transfer from pre-trained networks."""

from vista_spark import roster
from vista_spark._version import __version__
from vista_spark.featurizer import CNNFeaturizer

__all__ = ["CNNFeaturizer", "__version__", "roster"]
