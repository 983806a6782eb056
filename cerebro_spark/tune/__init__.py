"""Model selection: searches, their results, and the tuned model as a Spark ML Transformer."""

from cerebro_spark.tune._asha import ASHA
from cerebro_spark.tune._autolog import autolog
from cerebro_spark.tune._cost_picture import draw_costs
from cerebro_spark.tune._evolution import AgingEvolution
from cerebro_spark.tune._experiment import Experiment
from cerebro_spark.tune._extension import RunExtension
from cerebro_spark.tune._flavour import pyfunc_of
from cerebro_spark.tune._grid import GridSearch
from cerebro_spark.tune._halving import SuccessiveHalving
from cerebro_spark.tune._hyperband import Hyperband
from cerebro_spark.tune._model import TunedModel
from cerebro_spark.tune._network_estimator import NetworkEstimator
from cerebro_spark.tune._pbt import PBT
from cerebro_spark.tune._procedures import PROCEDURES
from cerebro_spark.tune._random import RandomSearch
from cerebro_spark.tune._ranking import check_objectives
from cerebro_spark.tune._result import TrialResult
from cerebro_spark.tune._schedule import ScheduleSearch
from cerebro_spark.tune._search import Search
from cerebro_spark.tune._selection import Selection
from cerebro_spark.tune._space import grid
from cerebro_spark.tune._strategy import Strategy
from cerebro_spark.tune._tables import TABLES, run_tables

__all__ = [
    "ASHA",
    "PBT",
    "PROCEDURES",
    "TABLES",
    "AgingEvolution",
    "Experiment",
    "GridSearch",
    "Hyperband",
    "NetworkEstimator",
    "RandomSearch",
    "RunExtension",
    "ScheduleSearch",
    "Search",
    "Selection",
    "Strategy",
    "SuccessiveHalving",
    "TrialResult",
    "TunedModel",
    "autolog",
    "check_objectives",
    "draw_costs",
    "grid",
    "pyfunc_of",
    "run_tables",
]
