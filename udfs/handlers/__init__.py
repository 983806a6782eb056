"""One seam for frameworks: torch, Keras and others behind one protocol, found in one registry.

A framework opens a model into a :class:`optimizer.graph.LayerGraph` and runs any part of it on a batch; it opens a
model for training; it exports a trained network. Everything above this package is framework-neutral: it names layers
and moves numpy arrays. ``docs/frameworks.md`` says how to add one.
"""

from udfs.handlers._adapted import Adapted, AdaptedModel, Cut, trained_whole, with_columns
from udfs.handlers._framework import DeviceError, Framework
from udfs.handlers._outputs import SingleOutput, UnknownOutputError, keyed_outputs, output_at
from udfs.handlers._protocol import Handler, TensorSpec, TracedModel, UntraceableModelError
from udfs.handlers._records import check_records, mixing_layer, with_neighbours
from udfs.handlers._registry import (
    ENTRY_POINTS,
    framework,
    framework_of,
    frameworks,
    imported_frameworks,
    register_framework,
    registered_frameworks,
    unregister_framework,
)
from udfs.handlers._session import BatchWeights, OutputKind, Rows, Session, Trainer

__all__ = [
    "ENTRY_POINTS",
    "Adapted",
    "AdaptedModel",
    "BatchWeights",
    "Cut",
    "DeviceError",
    "Framework",
    "Handler",
    "OutputKind",
    "Rows",
    "Session",
    "SingleOutput",
    "TensorSpec",
    "TracedModel",
    "Trainer",
    "UnknownOutputError",
    "UntraceableModelError",
    "check_records",
    "framework",
    "framework_of",
    "frameworks",
    "imported_frameworks",
    "keyed_outputs",
    "mixing_layer",
    "output_at",
    "register_framework",
    "registered_frameworks",
    "trained_whole",
    "unregister_framework",
    "with_columns",
    "with_neighbours",
]
