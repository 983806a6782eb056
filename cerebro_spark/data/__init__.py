"""Data for training: encode columns, shuffle once, write shards; texts as tokens; petastorm's datasets; series."""

from cerebro_spark.data._census import Census, count, defect_reasons, encoded, listed
from cerebro_spark.data._checks import check_image_size, check_numbers, collect_reports
from cerebro_spark.data._columns import Chosen, choose, choose_features
from cerebro_spark.data._increments import prepare_increment
from cerebro_spark.data._petastorm import petastorm_frame
from cerebro_spark.data._prepare import prepare
from cerebro_spark.data._series_plan import cut_series, series_rows
from cerebro_spark.data._shard_assignment import with_places
from cerebro_spark.data._tokenize import bio_classes, tokenize

__all__ = [
    "Census",
    "Chosen",
    "bio_classes",
    "check_image_size",
    "check_numbers",
    "choose",
    "choose_features",
    "collect_reports",
    "count",
    "cut_series",
    "defect_reasons",
    "encoded",
    "listed",
    "petastorm_frame",
    "prepare",
    "prepare_increment",
    "series_rows",
    "tokenize",
    "with_places",
]
