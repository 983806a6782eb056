"""Sequential specialization in tasks: experts over features of compact models, and labels of streams.

Shen, *System for Serving Deep Neural Networks Efficiently*, chapter 5.
"""

from udfs.specialization._block_errors import BlockErrors
from udfs.specialization._expert_head import (
    Expertise,
    LinearHead,
    ReweightedExpert,
    TrainedExpert,
    train_expert,
    train_linear,
)
from udfs.specialization._linear_scores import LinearScores, features_of
from udfs.specialization._partition_labelling import DIGEST, ROW, STREAM, TIME, PartitionLabelling
from udfs.specialization._spec import LATE, ORACLE, REPEAT, CompactModel, LabelColumns, SpecializationSpec
from udfs.specialization._stream_labelling import FrameLabel, OpenModels, StreamLabelling, StreamMemory
from udfs.specialization._stream_processor import StreamProcessor
from udfs.specialization._timed_features import TimedFeatures
from udfs.specialization._training_rows import LearnedParts, TrainingRows, parts_from_bytes, parts_to_bytes, read_parts

__all__ = [
    "DIGEST",
    "LATE",
    "ORACLE",
    "REPEAT",
    "ROW",
    "STREAM",
    "TIME",
    "BlockErrors",
    "CompactModel",
    "Expertise",
    "FrameLabel",
    "LabelColumns",
    "LearnedParts",
    "LinearHead",
    "LinearScores",
    "OpenModels",
    "PartitionLabelling",
    "ReweightedExpert",
    "SpecializationSpec",
    "StreamLabelling",
    "StreamMemory",
    "StreamProcessor",
    "TimedFeatures",
    "TrainedExpert",
    "TrainingRows",
    "features_of",
    "parts_from_bytes",
    "parts_to_bytes",
    "read_parts",
    "train_expert",
    "train_linear",
]
