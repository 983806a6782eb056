"""A search or an adaptation as a Python file: trainer_fn, search_space, and settings beside them."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from cerebro_spark.errors import InvalidArgumentError
from optimizer.errors import nearest
from udfs.driver import FORMER_NAMES
from udfs.driver.command import user_module

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

__all__ = ["PROCEDURES", "adaptation_settings", "load_search", "search_settings"]

#: Procedures by the names of the command line, and the searches of ``cerebro_spark`` that run them.
PROCEDURES = {
    "grid": "GridSearch",
    "random": "RandomSearch",
    "halving": "SuccessiveHalving",
    "hyperband": "Hyperband",
    "asha": "ASHA",
    "pbt": "PBT",
    "evolution": "AgingEvolution",
}

# What the file may have beside trainer_fn, search_space and procedure: arguments of searches and adaptations, of every
# search, and of some.
_OF_BOTH = (
    "feature_columns",
    "label_columns",
    "weight_column",
    "metric",
    "test_fraction",
    "image_size",
    "rounds",
    "checkpoints",
)
_SETTINGS = (
    *_OF_BOTH,
    "num_shards",
    "keep",
    "stoppers",
    "max_configurations",
    "max_total_epochs",
    "max_seconds",
    "price",
    "max_cost",
)
_OF_SOME = (
    "num_epochs",
    "num_configurations",
    "max_epochs",
    "min_epochs",
    "eta",
    "brackets",
    "rungs",
    "concurrency",
    "sampler",
    "population",
    "ready",
    "quantile",
    "resample",
    "factors",
    "only",
    "generations",
    "sample_size",
)

# And what a file of an adaptation may have.
_OF_AN_ADAPTATION = (
    *_OF_BOTH,
    "id_column",
    "mode",
    "search",
    "max_records",
    "disk_bytes",
    "memory_bytes",
    "workspace_bytes",
    "storage_dtype",
    "warm_start",
    "augmentation",
    "costs",
)

# Epochs of a grid whose file does not say how many.
_NUM_EPOCHS = 10


def load_search(path: Path) -> ModuleType:
    """Run a file of a search, or of an adaptation.

    Raises
    ------
    InvalidArgumentError
        There is no such Python file, it fails, it sets a name of an earlier release, or it defines no trainer_fn or
        search_space.
    """
    module = user_module(path, "trainer_fn and search_space")
    for former, names in FORMER_NAMES.items():
        today = next((name for name in names if name in _SETTINGS + _OF_SOME), None)
        if today is not None and hasattr(module, former) and not callable(getattr(module, former)):
            raise InvalidArgumentError(f"{path} sets {former}, which is called {today} today: rename it")
    for name in ("trainer_fn", "search_space"):
        if not hasattr(module, name):
            raise InvalidArgumentError(f"{path} does not define {name}{nearest(name, dir(module))}")
    return module


def search_settings(module: ModuleType, given: dict[str, Any], kind: type) -> dict[str, Any]:
    """Collect the settings of a search as keywords of its class.

    Parameters
    ----------
    module : module
        Of :func:`load_search`.
    given : dict of str to object
        Of the command line, by the same names; what is not ``None`` wins over the file.
    kind : type
        One of the classes of :data:`PROCEDURES`.

    Raises
    ------
    InvalidArgumentError
        Neither names the labels, or a setting that the search needs; or one names a setting of other searches.
    """
    arguments = {field.name: field for field in fields(kind)}
    settings: dict[str, Any] = {}
    for name in _SETTINGS + _OF_SOME:
        value = given.get(name)
        if value is None:
            value = getattr(module, name, None)
        if value is None:
            continue
        if name not in arguments:
            known = ", ".join(other for other in _OF_SOME if other in arguments)
            raise InvalidArgumentError(f"{name}={value!r} is no setting of a {kind.__name__}, which has {known}")
        settings[name] = value
    if "label_columns" not in settings:
        raise InvalidArgumentError(f"{module.__file__} has no label_columns: name them there, or with --labels")
    if kind.__name__ == PROCEDURES["grid"]:
        settings.setdefault("num_epochs", _NUM_EPOCHS)
    for name in _OF_SOME:
        if name in arguments and name not in settings and arguments[name].default is MISSING:
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgumentError(f"a {kind.__name__} needs {name}: set it in {module.__file__}, or with {option}")
    return settings


def adaptation_settings(module: ModuleType, given: dict[str, Any]) -> dict[str, Any]:
    """Collect the settings of an adaptation as keywords of its class.

    Parameters
    ----------
    module : module
        Of :func:`load_search`.
    given : dict of str to object
        Of the command line, by the same names; what is not ``None`` wins over the file.

    Raises
    ------
    InvalidArgumentError
        Neither names the labels or the ids; or the file has settings of a search.
    """
    for name in ("procedure", *_OF_SOME):
        # A function of the file may have such a name.
        if isinstance(getattr(module, name, None), (str, int, float, list, tuple)):
            raise InvalidArgumentError(
                f"{module.__file__} sets {name}, which is no setting of an adaptation: ModelTrainer(..., epochs=5) "
                "says the epochs, search = partial(Hyperband, max_epochs=9) another search than the grid"
            )
    found = {name: getattr(module, name, None) for name in _OF_AN_ADAPTATION}
    settings = {name: value for source in (found, given) for name, value in source.items() if value is not None}
    for name, option in (("id_column", "--id"), ("label_columns", "--labels")):
        if name not in settings:
            raise InvalidArgumentError(f"{module.__file__} has no {name}: name it there, or with {option}")
    return settings
