"""RUN models over DataFrames: feature transfer from pre-trained networks."""

from vista_spark._shadow import check_packages

check_packages()

from vista_spark import roster  # noqa: E402 - the guard comes before what it guards
from vista_spark._session import session  # noqa: E402
from vista_spark._version import __version__  # noqa: E402
from vista_spark.explanation import Explanation, explain, explain_sizes  # noqa: E402
from vista_spark.featurizer import CNNFeaturizer  # noqa: E402
from vista_spark.occlusion import OcclusionExplainer, OcclusionExplainerModel  # noqa: E402
from vista_spark.perceptron import (  # noqa: E402
    MLPClassificationModel,
    MLPClassifier,
    MLPRegressionModel,
    MLPRegressor,
)
from vista_spark.profile import profile  # noqa: E402
from vista_spark.tensor_explanation import TensorExplanation, explain_tensor  # noqa: E402
from vista_spark.text_featurizer import TextFeaturizer  # noqa: E402
from vista_spark.transfer import (  # noqa: E402
    FeatureTransfer,
    LayerResult,
    TransferResult,
    plan_feature_transfer,
)

__all__ = [
    "CNNFeaturizer",
    "Explanation",
    "FeatureTransfer",
    "LayerResult",
    "MLPClassificationModel",
    "MLPClassifier",
    "MLPRegressionModel",
    "MLPRegressor",
    "OcclusionExplainer",
    "OcclusionExplainerModel",
    "TensorExplanation",
    "TextFeaturizer",
    "TransferResult",
    "__version__",
    "explain",
    "explain_sizes",
    "explain_tensor",
    "plan_feature_transfer",
    "profile",
    "roster",
    "session",
]
