"""Reader of a Python file of a search or an adaptation: trainer_fn, search_space and settings."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import cerebro_spark
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import PROCEDURES
from optimizer.errors import nearest
from udfs.cli import user_module
from udfs.driver import FORMER_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

__all__ = ["ablation_settings", "adaptation_settings", "load_search", "search_settings"]

# Parameters that a command sets itself, or that have no place in a file.
_RESERVED = {
    *("backend", "store", "trainer_fn", "search_space", "name", "schedule", "errors", "seed", "experiment", "replicas"),
    *("callbacks", "tensorboard", "progress", "unit_timeout_s", "study", "study_trials"),
    *("materialise", "fuse", "joint", "bytes_per_second"),
}


def _settings_of(kind: type) -> dict[str, Parameter]:
    """Return the parameters of a search or adaptation that a file may set."""
    return {name: each for name, each in signature(kind).parameters.items() if name not in _RESERVED}


_OF_SEARCHES = {name: _settings_of(getattr(cerebro_spark, search)) for name, search in PROCEDURES.items()}
_SETTINGS = dict.fromkeys(name for settings in _OF_SEARCHES.values() for name in settings if name != "mode")
# Settings that only some procedures have.
_OF_SOME = [name for name in _SETTINGS if not all(name in settings for settings in _OF_SEARCHES.values())]

# Epochs of a grid whose file does not say how many.
_NUM_EPOCHS = 10


def load_search(path: Path, required: Sequence[str] = ("trainer_fn", "search_space")) -> ModuleType:
    """Run a file of a search, of an adaptation or of an ablation, which defines ``required``.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, it fails, it sets a name of an earlier release, or it does not define all
        ``required`` names.
    """
    module = user_module(path, " and ".join(required))
    for former, names in FORMER_NAMES.items():
        today = next((name for name in names if name in _SETTINGS), None)
        if today is not None and hasattr(module, former) and not callable(getattr(module, former)):
            raise InvalidArgumentError(f"{former} must be renamed to {today} in {path}.")
    for name in required:
        if not hasattr(module, name):
            raise InvalidArgumentError(f"{path} must define {name}{nearest(name, dir(module)) or '.'}")
    return module


def search_settings(module: ModuleType, options: dict[str, Any], kind: type) -> dict[str, Any]:
    """Collect the settings of a search as keywords of its class.

    ``options`` of the command line win over the file.

    Raises
    ------
    InvalidArgumentError
        The labels or a required setting are missing, or a setting belongs to other searches.
    """
    arguments = _settings_of(kind)
    settings: dict[str, Any] = {}
    for name in _SETTINGS:
        value = options.get(name, getattr(module, name, None))
        if value is None:
            continue
        if name not in arguments:
            known = ", ".join(other for other in _OF_SOME if other in arguments)
            raise InvalidArgumentError(f"{name} must be a setting of {kind.__name__} ({known}), got {name}={value!r}.")
        settings[name] = value
    if "label_columns" not in settings:
        raise InvalidArgumentError(f"label_columns must be set in {module.__file__}, or with --labels.")
    if kind.__name__ == PROCEDURES["grid"]:
        settings.setdefault("num_epochs", _NUM_EPOCHS)
    for name in _OF_SOME:
        if name in arguments and name not in settings and arguments[name].default is Parameter.empty:
            raise InvalidArgumentError(
                f"{name} must be set for {kind.__name__} in {module.__file__}, or with --{name.replace('_', '-')}."
            )
    return settings


def adaptation_settings(module: ModuleType, options: dict[str, Any]) -> dict[str, Any]:
    """Collect the settings of an adaptation as keywords of its class.

    ``options`` of the command line win over the file.

    Raises
    ------
    InvalidArgumentError
        The labels or the ids are missing, or the file has settings of a search.
    """
    for name in ("procedure", *_OF_SOME):
        # A function of the file may have such a name.
        if isinstance(getattr(module, name, None), (str, int, float, list, tuple)):
            raise InvalidArgumentError(
                f"{name} must not be set in {module.__file__}, for an adaptation has no such setting: "
                "ModelTrainer(..., epochs=5) sets the epochs, search = partial(Hyperband, max_epochs=9) another search."
            )
    written = {name: getattr(module, name, None) for name in _settings_of(cerebro_spark.Adaptation)}
    settings = {name: value for name, value in (written | options).items() if value is not None}
    for name, option in (("id_column", "--id"), ("label_columns", "--labels")):
        if name not in settings:
            raise InvalidArgumentError(f"{name} must be set in {module.__file__}, or with {option}.")
    return settings


def ablation_settings(module: ModuleType, options: dict[str, Any]) -> dict[str, Any]:
    """Collect the settings of an ablation as keywords of its class.

    ``options`` of the command line win over the file.

    Raises
    ------
    InvalidArgumentError
        A required setting is missing.
    """
    written = {name: getattr(module, name, None) for name in _settings_of(cerebro_spark.Ablation)}
    settings = {name: value for name, value in (written | options).items() if value is not None}
    for name, option in (
        ("feature_columns", "--features"),
        ("label_columns", "--labels"),
        ("num_epochs", "--num-epochs"),
    ):
        if name not in settings:
            raise InvalidArgumentError(f"{name} must be set in {module.__file__}, or with {option}.")
    return settings
