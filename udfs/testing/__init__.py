"""Contracts as test suites: a project of its own subclasses one, and pytest collects the rest.

One file per contract: ``_frameworks`` for tracing and running a model, ``_training`` for the rest of a framework,
``_adaptation`` for trainers that are opened where their frozen layers end,
``_stages`` for a Spark ML stage.
"""

from udfs.testing._adaptation import AdaptationContract, AdaptationSample
from udfs.testing._frameworks import HandlerContract, Refusal, Sample, assert_same_bits, records
from udfs.testing._new_process import transform_in_new_process
from udfs.testing._stage_sample import StageSample
from udfs.testing._stages import StageContract
from udfs.testing._training import FrameworkContract, TrainingSample

__all__ = [
    "AdaptationContract",
    "AdaptationSample",
    "FrameworkContract",
    "HandlerContract",
    "Refusal",
    "Sample",
    "StageContract",
    "StageSample",
    "TrainingSample",
    "assert_same_bits",
    "records",
    "transform_in_new_process",
]
