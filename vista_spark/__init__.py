"""Run models over DataFrames: feature transfer from pre-trained networks.

Public names and packages are imported on first access, so that servers without Spark start fast.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import udfs

if not hasattr(udfs, "check_packages"):
    raise ImportError(
        f"cerebro-spark's package 'udfs' is hidden: Python finds 'udfs' at {udfs.__file__}. "
        "Rename that file or folder, or start Python elsewhere"
    )
udfs.check_packages()

from optimizer import __version__

if TYPE_CHECKING:
    from vista_spark import roster, video
    from vista_spark.attribution import (
        Attribution,
        Attributor,
        attribution_of,
        image_attributor,
        tensor_attributor,
        text_attributor,
    )
    from vista_spark.cascades import Cascade, CascadeModel, Certificate
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
    from vista_spark.specialization import SpecializedClassifier, SpecializedModel
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
    "Cascade",
    "CascadeModel",
    "Certificate",
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
    "SpecializedClassifier",
    "SpecializedModel",
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
    "video",
]

# The imports above, for `__getattr__`.
_NAMES = {
    "vista_spark.attribution": {
        "Attribution",
        "Attributor",
        "attribution_of",
        "image_attributor",
        "tensor_attributor",
        "text_attributor",
    },
    "vista_spark.cascades": {"Cascade", "CascadeModel", "Certificate"},
    "vista_spark.compiling": {
        "CompiledPipeline",
        "CompiledTransfer",
        "TensorPipeline",
        "compile_pipeline",
        "replace_stages",
    },
    "vista_spark.features": {"CNNFeaturizer", "TextFeaturizer"},
    "vista_spark.mlp": {"MLPClassificationModel", "MLPClassifier", "MLPRegressionModel", "MLPRegressor"},
    "vista_spark.network": {"profile"},
    "vista_spark.occlusion": {
        "ExplainerSession",
        "Explanation",
        "OcclusionExplainer",
        "OcclusionExplainerModel",
        "OcclusionOptions",
        "Progress",
        "TensorExplanation",
        "explain_image",
        "explain_image_sizes",
        "explain_image_targets",
        "explain_tensor",
        "open_explainer",
    },
    "vista_spark.sessions": {"memory", "session"},
    "vista_spark.specialization": {"SpecializedClassifier", "SpecializedModel"},
    "vista_spark.sql": {"register_sql"},
    "vista_spark.transfer": {
        "FeatureTransfer",
        "FeatureTransferModel",
        "InferencePass",
        "LayerResult",
        "TransferPredictor",
        "TransferResult",
        "plan_feature_transfer",
    },
}
_PACKAGES = {
    "attribution",
    "cascades",
    "cli",
    "compiling",
    "features",
    "files",
    "mlflow",
    "mlp",
    "network",
    "occlusion",
    "roster",
    "serving",
    "sessions",
    "sql",
    "transfer",
    "video",
    "errors",
}


def __getattr__(name: str) -> Any:
    """Import a public name or a package on first access."""
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None and name not in _PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    udfs.check_pyspark()
    value = import_module(f"{__name__}.{name}") if home is None else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_PACKAGES})


# Pipelines saved before the stages had public paths name them by these modules.
for _module in ("featurizer", "perceptron", "text_featurizer"):
    sys.modules[f"{__name__}.{_module}"] = sys.modules[__name__]
