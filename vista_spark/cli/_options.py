"""Options that several commands of ``vista`` share."""

from __future__ import annotations

import sys
import traceback
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimizer.errors import CerebroError, nearest
from optimizer.memory import LOGICAL_PLANS
from udfs.cli import OptionGroup, choice
from vista_spark import roster, sessions
from vista_spark.errors import InvalidArgumentError
from vista_spark.files import Source, parse_layers, parse_layout
from vista_spark.network import has_random_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession
    from rich.console import Console

    from vista_spark.roster import ModelCard

__all__ = [
    "OVERRIDES",
    "PLANNED",
    "SOURCE",
    "Downstream",
    "Model",
    "RandomWeights",
    "Table",
    "Weights",
    "check_new_folder",
    "downstream_factory",
    "downstream_name",
    "features_lines",
    "is_regression",
    "known_weights",
    "opened_model",
    "opened_weights",
    "start_spark",
]

# The paper's downstream model is the first (Vista, Figure 8).
_DOWNSTREAM: dict[str, tuple[str, dict[str, Any]]] = {
    "logistic": (
        "pyspark.ml.classification:LogisticRegression",
        {"maxIter": 10, "regParam": 0.01, "elasticNetParam": 0.5},
    ),
    "forest": ("pyspark.ml.classification:RandomForestClassifier", {"seed": 0}),
    "linear": ("pyspark.ml.regression:LinearRegression", {"regParam": 0.01}),
    "mlp": ("vista_spark.mlp:MLPClassifier", {}),
    "forest-regression": ("pyspark.ml.regression:RandomForestRegressor", {"seed": 0}),
}
_IMAGENET = "imagenet"

Table = Annotated[
    str,
    typer.Option(
        help="Structured data: .csv or .tsv with a header (the separator is detected), .json, .orc, Parquet, or what "
        "--table-format says."
    ),
]
Model = Annotated[
    str,
    typer.Option(
        help="Network: a name of `vista models`, a file (.pt2, .keras, .onnx), a folder of transformers, or "
        "package.module:function."
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(help="Path or URI of a state dict, or imagenet: the file that `vista weights fetch` fetched."),
]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="Run the network with random weights, to try the command.")
]
Downstream = Annotated[
    str, typer.Option(help=f"{', '.join(_DOWNSTREAM)}, or package.module:callable that returns an estimator.")
]

SOURCE = OptionGroup(Source, [each.name for each in fields(Source)])
"""Options of the data of a transfer."""

PLANNED = ["layers", "pooling", "layout", "plan", "batch_size", "max_pixels", "device"]
"""Parameters of a transfer that its memory plan depends on."""

OVERRIDES: dict[str, dict[str, Any]] = {
    "layers": {"parser": parse_layers, "metavar": "LAYERS"},
    "layout": {"parser": parse_layout, "metavar": "LAYOUT"},
    "plan": {"parser": choice("auto", *LOGICAL_PLANS), "metavar": "PLAN"},
    "batch_size": {"min": 1},
    "max_pixels": {"min": 1},
}
"""Settings of these options that the command line has of its own."""


def start_spark(master: str | None, console: Console, *, ship: bool = False) -> SparkSession:
    """Start the session of a command, with a status line meanwhile."""
    with console.status("starting Spark"):
        return sessions.session(master, conf={"spark.log.level": "ERROR"}, ship=ship)


def check_new_folder(out: Path) -> None:
    """Validate that ``--out`` does not exist.

    Raises
    ------
    InvalidArgumentError
        It does.
    """
    if out.exists():
        raise InvalidArgumentError(
            f"--out must name a new folder, got {out}, which is there already. Name another folder, or delete it."
        )


def downstream_factory(text: str) -> Callable[[], Any]:
    """Find the estimator of ``--downstream``, without making it: that takes Spark.

    Raises
    ------
    InvalidArgumentError
        There is no such name, module or attribute.
    """
    target, settings = _DOWNSTREAM.get(text, (text, {}))
    attribute = downstream_name(text)
    try:
        estimator = getattr(import_module(target.partition(":")[0]), attribute)
    except (ImportError, AttributeError) as error:
        raise InvalidArgumentError(f"--downstream {target!r}: {error}") from error
    except Exception as error:
        raise _of_the_users(f"--downstream {target!r}", error) from error

    def make() -> Any:
        try:
            return estimator(**settings)
        except Exception as error:
            raise _of_the_users(f"--downstream {target!r}", error) from error

    return make


def _of_the_users(option: str, error: Exception) -> InvalidArgumentError:
    """Describe where code of the user failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InvalidArgumentError(f"{option}: {last.filename}, line {last.lineno}: {type(error).__name__}: {error}")


def opened_model(text: str) -> Any:
    """Find the network of ``--model``.

    A name stays as it is; a path is that of a model's file or of a folder of transformers; ``package.module:function``
    is called, and the folder that the command is run in is searched for its package after all others.

    Raises
    ------
    InvalidArgumentError
        The function cannot be imported, fails, or returns no model; the folder holds no network.
    """
    if not text:
        raise InvalidArgumentError(
            "--model must name a network, got an empty name; it names no network. `vista models` lists the roster."
        )
    if text not in roster.names() and roster.is_model_file(text):
        return roster.of(text)
    if text not in roster.names() and ("/" in text or Path(text).is_dir()):
        return roster.from_pretrained(text)
    if roster.is_name(text):
        return text
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        return roster.of(text)
    except CerebroError:
        raise
    except Exception as error:
        raise _of_the_users(f"--model {text!r}", error) from error


def opened_weights(weights: str | None, model: str) -> str | None:
    """Find the file of ``--weights``: ``imagenet`` is what ``vista weights fetch`` fetched; all else stays as it is.

    Raises
    ------
    InvalidArgumentError
        No weights are published for the network.
    udfs.weights.WeightsError
        They have not been fetched.
    """
    if weights != _IMAGENET or Path(weights).exists():
        return weights
    return str(roster.fetched_weights(model))


def known_weights(card: ModelCard, weights: object, *, random_weights: bool = False) -> None:
    """Refuse a network that would run with random weights, unless the user asked for that.

    Raises
    ------
    InvalidArgumentError
        The weights are random and ``--random-weights`` is not given; or it is given and they are not.
    """
    is_random = has_random_weights(card, weights)
    if is_random and not random_weights:
        raise InvalidArgumentError(
            f"{card.name} has no trained weights here, and its outputs would say nothing of the data: name a file or "
            f"URI with --weights, or run `vista weights fetch {card.name}` and give --weights imagenet. "
            "--random-weights tries the command without"
        )
    if random_weights and not is_random:
        raise InvalidArgumentError(
            f"--random-weights must not be given with weights, and {card.name} has some; leave out one of the two."
        )


def is_regression(downstream: str) -> bool:
    """Return whether the class name of ``--downstream`` is that of a regression; function names are not."""
    name = downstream_name(downstream)
    return name.endswith(("Regressor", "Regression")) and name != "LogisticRegression"


def features_lines(source: Source, columns: Sequence[str], notes: Sequence[str]) -> str:
    """Return the lines about the structured features that a command uses, and about the columns that it does not."""
    others = f"{source.on} and {source.learned}"
    why = f" (every numeric column but {others}; --features names others)" if source.features is None else ""
    return "\n".join([f"structured features: {', '.join(columns) or 'none'}{why}", *notes])


def downstream_name(text: str) -> str:
    """Name the estimator of ``--downstream`` within its module.

    Raises
    ------
    InvalidArgumentError
        It is neither a known word nor ``package.module:callable``.
    """
    target, _ = _DOWNSTREAM.get(text, (text, {}))
    attribute = target.partition(":")[2]
    if not attribute:
        raise InvalidArgumentError(
            f"--downstream must be one of {', '.join(_DOWNSTREAM)}, or package.module:callable, got {text!r}"
            f"{nearest(text, _DOWNSTREAM) or '.'}"
        )
    return attribute
