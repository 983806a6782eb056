"""RUN models over DataFrames: feature transfer from pre-trained networks."""

from vista_spark._shadow import check_packages

check_packages()

from vista_spark import roster  # noqa: E402 - the guard comes before what it guards
from vista_spark._session import session  # noqa: E402
from vista_spark._version import __version__  # noqa: E402
from vista_spark.featurizer import CNNFeaturizer  # noqa: E402
from vista_spark.transfer import FeatureTransfer, LayerResult, TransferResult  # noqa: E402

__all__ = [
    "CNNFeaturizer",
    "FeatureTransfer",
    "LayerResult",
    "TransferResult",
    "__version__",
    "roster",
    "session",
]
