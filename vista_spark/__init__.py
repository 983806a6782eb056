"""RUN models over DataFrames: feature transfer from pre-trained networks."""

import sys

import udfs

if not hasattr(udfs, "check_packages"):
    raise ImportError(
        f"cerebro-spark's package 'udfs' is hidden: Python finds 'udfs' at {udfs.__file__}. "
        "Rename that file or folder, or start Python elsewhere"
    )
udfs.check_packages()
udfs.check_pyspark()

from optimizer import __version__
from vista_spark import roster
from vista_spark.attribution import (
    Attribution,
    Attributor,
    attribution_of,
    image_attributor,
    tensor_attributor,
    text_attributor,
)
from vista_spark.compiling import (
    CompiledPipeline,
    CompiledTransfer,
    TensorPipeline,
    compile_pipeline,
    replace_stages,
)
from vista_spark.features import (
    CNNFeaturizer,
    TextFeaturizer,
)
from vista_spark.mlp import MLPClassificationModel, MLPClassifier, MLPRegressionModel, MLPRegressor
from vista_spark.network import profile
from vista_spark.occlusion import (
    ExplainerSession,
    Explanation,
    OcclusionExplainer,
    OcclusionExplainerModel,
    OcclusionOptions,
    Progress,
    TensorExplanation,
    explain_image,
    explain_image_sizes,
    explain_image_targets,
    explain_tensor,
    open_explainer,
)
from vista_spark.sessions import memory, session
from vista_spark.sql import register_sql
from vista_spark.transfer import (
    FeatureTransfer,
    FeatureTransferModel,
    InferencePass,
    LayerResult,
    TransferPredictor,
    TransferResult,
    plan_feature_transfer,
)

__all__ = [
    "Attribution",
    "Attributor",
    "CNNFeaturizer",
    "CompiledPipeline",
    "CompiledTransfer",
    "ExplainerSession",
    "Explanation",
    "FeatureTransfer",
    "FeatureTransferModel",
    "InferencePass",
    "LayerResult",
    "MLPClassificationModel",
    "MLPClassifier",
    "MLPRegressionModel",
    "MLPRegressor",
    "OcclusionExplainer",
    "OcclusionExplainerModel",
    "OcclusionOptions",
    "Progress",
    "TensorExplanation",
    "TensorPipeline",
    "TextFeaturizer",
    "TransferPredictor",
    "TransferResult",
    "__version__",
    "attribution_of",
    "compile_pipeline",
    "explain_image",
    "explain_image_sizes",
    "explain_image_targets",
    "explain_tensor",
    "image_attributor",
    "memory",
    "open_explainer",
    "plan_feature_transfer",
    "profile",
    "register_sql",
    "replace_stages",
    "roster",
    "session",
    "tensor_attributor",
    "text_attributor",
]

# Pipelines saved before the stages had public paths name them by these modules.
for _module in ("featurizer", "perceptron", "text_featurizer"):
    sys.modules[f"{__name__}.{_module}"] = sys.modules[__name__]
