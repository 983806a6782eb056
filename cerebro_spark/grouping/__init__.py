"""Search with a model per group of rows: preparation, training, and routing of rows to the models of their groups."""

from cerebro_spark.grouping._model import GroupedModel
from cerebro_spark.grouping._prepare import prepare_groups
from cerebro_spark.grouping._search import GroupedSearch
from cerebro_spark.grouping._summary import GroupSummary

__all__ = ["GroupSummary", "GroupedModel", "GroupedSearch", "prepare_groups"]
