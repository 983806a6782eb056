"""Adaptation of pre-trained models to growing labels, with frozen layers computed once per record (Nautilus)."""

from cerebro_spark.adaptation._adaptation import Adaptation
from cerebro_spark.adaptation._cycle import Cycle, CycleResult
from cerebro_spark.adaptation._figures import cycles_figure
from cerebro_spark.adaptation._materialise import Materialised, materialise
from cerebro_spark.adaptation._measure import WorkerRates, measure_workers
from cerebro_spark.adaptation._pool_ranking import check_how

__all__ = [
    "Adaptation",
    "Cycle",
    "CycleResult",
    "Materialised",
    "WorkerRates",
    "check_how",
    "cycles_figure",
    "materialise",
    "measure_workers",
]
