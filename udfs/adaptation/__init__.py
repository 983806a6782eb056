"""Execution of adaptations in workers: computing, storing and reading outputs of frozen layers."""

from udfs.adaptation._augmentation import Augmentation, Augmenter
from udfs.adaptation._bfloat16 import StorageError, from_bfloat16, to_bfloat16
from udfs.adaptation._computing import Computed, compute
from udfs.adaptation._coverage import CoreSet, Projection, farthest_first
from udfs.adaptation._errors import (
    AugmentationError,
    DamagedFeatureError,
    FeatureError,
    FeatureSpaceError,
    MissingFeatureError,
)
from udfs.adaptation._features import STORAGE_DTYPES, FeatureFile, FeatureStore, FeatureWriter, StoredArray
from udfs.adaptation._inputs import column_names, input_expressions, input_specs
from udfs.adaptation._measuring import LayerTime, MeasuringTask, ReaderSpeed, TrunkSpeed, measure_reader, measure_trunk
from udfs.adaptation._pool import BestModel, LabelledCoreSet, LabelledIds, PoolCoreSet, PoolPass, PoolUncertainty
from udfs.adaptation._pool_features import PoolFeatures, PoolReader
from udfs.adaptation._reader import FeatureReader
from udfs.adaptation._rows import FeatureBatch, FeatureRows, batches
from udfs.adaptation._segment import Segment, segments_of
from udfs.adaptation._stacked_arrays import Stacked
from udfs.adaptation._task import MaterialisingTask, ModelOpener, SegmentOrder, SegmentReport
from udfs.adaptation._trunk import Trunk, TrunkModel, frozen_layers

__all__ = [
    "STORAGE_DTYPES",
    "Augmentation",
    "AugmentationError",
    "Augmenter",
    "BestModel",
    "Computed",
    "CoreSet",
    "DamagedFeatureError",
    "FeatureBatch",
    "FeatureError",
    "FeatureFile",
    "FeatureReader",
    "FeatureRows",
    "FeatureSpaceError",
    "FeatureStore",
    "FeatureWriter",
    "LabelledCoreSet",
    "LabelledIds",
    "LayerTime",
    "MaterialisingTask",
    "MeasuringTask",
    "MissingFeatureError",
    "ModelOpener",
    "PoolCoreSet",
    "PoolFeatures",
    "PoolPass",
    "PoolReader",
    "PoolUncertainty",
    "Projection",
    "ReaderSpeed",
    "Segment",
    "SegmentOrder",
    "SegmentReport",
    "Stacked",
    "StorageError",
    "StoredArray",
    "Trunk",
    "TrunkModel",
    "TrunkSpeed",
    "batches",
    "column_names",
    "compute",
    "farthest_first",
    "from_bfloat16",
    "frozen_layers",
    "input_expressions",
    "input_specs",
    "measure_reader",
    "measure_trunk",
    "segments_of",
    "to_bfloat16",
]
