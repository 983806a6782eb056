"""Deep learning frameworks behind one protocol: torch, Keras, and those that other packages register.

A framework opens a model into a :class:`optimizer.graph.LayerGraph` and runs any part of it on a batch; it opens a
model for training; it exports a trained network. Everything above this package is framework-neutral: it names layers
and moves numpy arrays. ``docs/frameworks.md`` describes how to add a framework.
"""

from udfs.handlers._adapted_trainer import Adapted, Cut, trained_whole, with_columns
from udfs.handlers._batch_checks import BatchChecks
from udfs.handlers._decorated_helpers import register_reducers
from udfs.handlers._framework import Framework
from udfs.handlers._hypermodel import HyperModelTrainer
from udfs.handlers._inheritance import inherited_weights
from udfs.handlers._installed_packages import own_packages
from udfs.handlers._layer_layout import LAYOUTS, LayerLayout, layer_layout
from udfs.handlers._metric_modes import check_metric_mode
from udfs.handlers._open_session import call_trainer, open_adapted, open_session, training_bytes
from udfs.handlers._outputs import UnknownOutputError, keyed_outputs, output_at
from udfs.handlers._process_settings import apply_settings, changed_settings, settings_kept, take_settings
from udfs.handlers._protocol import Handler, TracedModel, UntraceableModelError
from udfs.handlers._random import apply_random, take_random
from udfs.handlers._record_checks import check_records, mixing_layer, with_neighbours
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
from udfs.handlers._steps import train_in_steps
from udfs.handlers._trainer import ModelTrainer, trainer_framework
from udfs.handlers._trial_step import try_step
from udfs.node import DeviceError
from udfs.tensors import TensorSpec

__all__ = [
    "ENTRY_POINTS",
    "LAYOUTS",
    "Adapted",
    "BatchChecks",
    "Cut",
    "DeviceError",
    "Framework",
    "Handler",
    "HyperModelTrainer",
    "LayerLayout",
    "ModelTrainer",
    "TensorSpec",
    "TracedModel",
    "UnknownOutputError",
    "UntraceableModelError",
    "apply_random",
    "apply_settings",
    "call_trainer",
    "changed_settings",
    "check_metric_mode",
    "check_records",
    "framework",
    "framework_of",
    "frameworks",
    "imported_frameworks",
    "inherited_weights",
    "keyed_outputs",
    "layer_layout",
    "mixing_layer",
    "open_adapted",
    "open_session",
    "output_at",
    "own_packages",
    "register_framework",
    "register_reducers",
    "registered_frameworks",
    "settings_kept",
    "take_random",
    "take_settings",
    "train_in_steps",
    "trained_whole",
    "trainer_framework",
    "training_bytes",
    "try_step",
    "unregister_framework",
    "with_columns",
    "with_neighbours",
]
