"""Contracts as test suites: a project of its own subclasses one, and pytest collects the rest.

One file per contract: ``_frameworks`` for the handler of a framework, ``_stages`` for a Spark ML stage.
"""

from udfs.testing._frameworks import HandlerContract, Refusal, Sample, assert_same_bits, records
from udfs.testing._new_process import transform_in_new_process
from udfs.testing._stage_sample import StageSample
from udfs.testing._stages import StageContract

__all__ = [
    "HandlerContract",
    "Refusal",
    "Sample",
    "StageContract",
    "StageSample",
    "assert_same_bits",
    "records",
    "transform_in_new_process",
]
