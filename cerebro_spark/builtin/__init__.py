"""Built-in models: ResNet50, MobileNetV2, BERT-base and DistilBERT, fully trained or with frozen layers.

A model is one file in the folder ``models``. The package imports a framework and Spark only when a model is loaded.
"""

from cerebro_spark.builtin._launch_source import load_source
from cerebro_spark.builtin._load import MODEL_SETTINGS, builtin_model, builtin_models
from cerebro_spark.builtin._source import ModelSource, unchanged

__all__ = ["MODEL_SETTINGS", "ModelSource", "builtin_model", "builtin_models", "load_source", "unchanged"]
