"""Partial inference over Arrow batches: feeds in, features and materialised tensors out (Vista, definition 3.6)."""

from udfs.inference._descriptors import HOGExtraction
from udfs.inference._feeds import Feed, ImageFeed, NumbersFeed, Read
from udfs.inference._finite_records import NOT_FINITE
from udfs.inference._inference import (
    COMBINATIONS,
    REDUCTIONS,
    Combination,
    Combined,
    Feature,
    Inference,
    Materialised,
    Reduction,
    TensorFeed,
)
from udfs.inference._model import ModelSource, check_model, open_model
from udfs.inference._network_file import NetworkFile, files_of_this_process
from udfs.inference._network_inputs import NetworkInputs
from udfs.inference._pool_score import PoolScore
from udfs.inference._pooling import POOLINGS, Pooling, feature_length, pool
from udfs.inference._portable import NotPortableError, PortableNetwork
from udfs.inference._prediction import Prediction
from udfs.inference._tagged_text import TokenColumns
from udfs.inference._text import TOKENIZER, TextError, TextFeed, Tokenization, open_tokenizer
from udfs.inference._uncertainty import UNCERTAINTIES, OutputUncertainty, uncertainty

__all__ = [
    "COMBINATIONS",
    "NOT_FINITE",
    "POOLINGS",
    "REDUCTIONS",
    "TOKENIZER",
    "UNCERTAINTIES",
    "Combination",
    "Combined",
    "Feature",
    "Feed",
    "HOGExtraction",
    "ImageFeed",
    "Inference",
    "Materialised",
    "ModelSource",
    "NetworkFile",
    "NetworkInputs",
    "NotPortableError",
    "NumbersFeed",
    "OutputUncertainty",
    "PoolScore",
    "Pooling",
    "PortableNetwork",
    "Prediction",
    "Read",
    "Reduction",
    "TensorFeed",
    "TextError",
    "TextFeed",
    "TokenColumns",
    "Tokenization",
    "check_model",
    "feature_length",
    "files_of_this_process",
    "open_model",
    "open_tokenizer",
    "pool",
    "uncertainty",
]
