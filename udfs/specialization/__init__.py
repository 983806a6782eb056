"""Sequential specialization in tasks: experts over features of compact models, and labels of streams.

Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5.
"""

from udfs.specialization._expert_head import ExpertHead, LinearHead, train_expert, train_linear
from udfs.specialization._linear_scores import LinearScores, features_of
from udfs.specialization._partition_labelling import DIGEST, STREAM, TIME, PartitionLabelling
from udfs.specialization._spec import LATE, ORACLE, CompactModel, LabelColumns, SpecializationSpec
from udfs.specialization._stream_labelling import FrameLabel, OpenModels, StreamLabelling, StreamMemory
from udfs.specialization._stream_processor import StreamProcessor
from udfs.specialization._timed_features import TimedFeatures
from udfs.specialization._training_rows import TrainingRows, head_from_bytes, read_rows, rows_from_bytes, rows_to_bytes

__all__ = [
    "DIGEST",
    "LATE",
    "ORACLE",
    "STREAM",
    "TIME",
    "CompactModel",
    "ExpertHead",
    "FrameLabel",
    "LabelColumns",
    "LinearHead",
    "LinearScores",
    "OpenModels",
    "PartitionLabelling",
    "SpecializationSpec",
    "StreamLabelling",
    "StreamMemory",
    "StreamProcessor",
    "TimedFeatures",
    "TrainingRows",
    "features_of",
    "head_from_bytes",
    "read_rows",
    "rows_from_bytes",
    "rows_to_bytes",
    "train_expert",
    "train_linear",
]
