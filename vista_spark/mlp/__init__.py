"""Multi-layer perceptrons trained by the cluster, as Spark ML Estimators and Models (Vista, sections 4.3 and 5)."""

from vista_spark.mlp._stages import MLPClassificationModel, MLPClassifier, MLPRegressionModel, MLPRegressor

__all__ = [
    "MLPClassificationModel",
    "MLPClassifier",
    "MLPRegressionModel",
    "MLPRegressor",
]
