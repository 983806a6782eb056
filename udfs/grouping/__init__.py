"""Groups of rows with a model each: shards sorted by group, training of many groups in a task, routed prediction."""

from udfs.grouping._grouped_data import GroupedData, load_grouped
from udfs.grouping._models import MODELS_SCHEMA, PackedModels
from udfs.grouping._reading import Group, read_groups
from udfs.grouping._routing import RoutedPrediction
from udfs.grouping._training import GROUPS_SCHEMA, GroupTraining, run_folder
from udfs.grouping._writing import GroupReport, GroupWriter

__all__ = [
    "GROUPS_SCHEMA",
    "MODELS_SCHEMA",
    "Group",
    "GroupReport",
    "GroupTraining",
    "GroupWriter",
    "GroupedData",
    "PackedModels",
    "RoutedPrediction",
    "load_grouped",
    "read_groups",
    "run_folder",
]
