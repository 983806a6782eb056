"""Adapt pre-trained models while the labels still come in: frozen layers are computed once a record (Nautilus)."""

from cerebro_spark.adaptation._materialise import Materialised, materialise

__all__ = ["Materialised", "materialise"]
