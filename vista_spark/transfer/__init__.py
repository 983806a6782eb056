"""Feature transfer: CNN layers joined with structured columns, and a downstream model on each (Vista)."""

from vista_spark.transfer._columns import NULL_FEATURE
from vista_spark.transfer._downstream import is_classification
from vista_spark.transfer._memory_figure import memory_figure
from vista_spark.transfer._model import FeatureTransferModel
from vista_spark.transfer._planning import named_size, plan_feature_transfer
from vista_spark.transfer._predictor import PredictorInputs, TransferPredictor
from vista_spark.transfer._result import InferencePass, LayerResult, TransferResult
from vista_spark.transfer._transfer import FeatureTransfer

__all__ = [
    "NULL_FEATURE",
    "FeatureTransfer",
    "FeatureTransferModel",
    "InferencePass",
    "LayerResult",
    "PredictorInputs",
    "TransferPredictor",
    "TransferResult",
    "is_classification",
    "memory_figure",
    "named_size",
    "plan_feature_transfer",
]
