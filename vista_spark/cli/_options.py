"""Options that several commands of ``vista`` share."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from optimizer.errors import CerebroError, nearest
from optimizer.logical import LOGICAL_PLANS
from udfs.driver.command import choice
from udfs.inference import POOLINGS
from vista_spark import roster
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import TEXT_POOLINGS, has_random_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vista_spark.roster import ModelCard

__all__ = [
    "BatchSize",
    "Categories",
    "Downstream",
    "Features",
    "Image",
    "Images",
    "Label",
    "Layers",
    "MaxPixels",
    "MaybeTable",
    "Model",
    "On",
    "Plan",
    "Pooling",
    "RandomWeights",
    "Table",
    "Weights",
    "downstream_factory",
    "downstream_name",
    "features_line",
    "is_regression",
    "known_weights",
    "opened_model",
    "opened_weights",
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
_POOLINGS = tuple(dict.fromkeys((*POOLINGS, *TEXT_POOLINGS)))

Images = Annotated[
    str | None,
    typer.Option(
        help="Folder of image files (the id is the name, or the path below it), or a table of images or texts. Without "
        "--table: a folder for each class, or a table that has the label too."
    ),
]
MaybeTable = Annotated[
    str | None,
    typer.Option(
        help="Structured data: .csv or .tsv with a header (the separator is detected), .json, .orc, Parquet, or what "
        "--table-format says. Without --images it has them, as --image."
    ),
]
Table = Annotated[
    str,
    typer.Option(
        help="Structured data: .csv or .tsv with a header (the separator is detected), .json, .orc, Parquet, or what "
        "--table-format says."
    ),
]
Label = Annotated[str | None, typer.Option(help="The label's column; texts are indexed. Folders of classes need none.")]
Categories = Annotated[
    str | None,
    typer.Option(help="Columns whose values are categories, with commas: indexed and one-hot encoded; the label too."),
]
On = Annotated[str, typer.Option(help="The id's column.")]
Features = Annotated[str | None, typer.Option(help="Structured columns, with commas; every numeric one by default.")]
Image = Annotated[str, typer.Option(help="The column of images (bytes or paths) or texts, where a table has them.")]
Model = Annotated[
    str,
    typer.Option(help="The network: a name of `vista models`, a folder of transformers, or package.module:function."),
]
Weights = Annotated[
    str | None,
    typer.Option(help="Path or URI of a state dict, or imagenet: what `vista weights fetch` fetched for the network."),
]
RandomWeights = Annotated[
    bool, typer.Option("--random-weights", help="Run the network with random weights: a trial of the command alone.")
]
Layers = Annotated[str, typer.Option(help="Names or numbers from the top, with commas; a bare number k: the top k.")]
Downstream = Annotated[
    str, typer.Option(help=f"{', '.join(_DOWNSTREAM)}, or package.module:callable that returns an estimator.")
]
Pooling = Annotated[
    str | None,
    typer.Option(
        help=f"Of images {', '.join(POOLINGS)}; of texts {', '.join(TEXT_POOLINGS)}; the first of each by default.",
        parser=choice(*_POOLINGS),
        metavar="POOLING",
    ),
]
Plan = Annotated[
    str,
    typer.Option(
        help="auto, or a logical plan by name; `vista plan` compares them.",
        parser=choice("auto", *LOGICAL_PLANS),
        metavar="PLAN",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(min=1, help="Images per run of the network; 32 by default, fewer where memory is short."),
]
MaxPixels = Annotated[
    int | None,
    typer.Option(min=1, help="An image of more pixels is a bad one; the plan counts decoding one of so many."),
]


def downstream_factory(text: str) -> Callable[[], Any]:
    """Find the estimator of ``--downstream``, without making it: that takes Spark.

    Returns
    -------
    callable
        Makes the estimator.

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
    """Say where code of the user's failed."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return InvalidArgumentError(f"{option}: {last.filename}, line {last.lineno}: {type(error).__name__}: {error}")


def opened_model(text: str) -> Any:
    """Find the network of ``--model``.

    A name stays as it is; a path is that of a folder of transformers; ``package.module:function`` is called, and the
    folder that the command is run in is searched for its package after all others.

    Raises
    ------
    InvalidArgumentError
        The function cannot be imported, fails, or returns no model; the folder holds no network.
    """
    if not text:
        raise InvalidArgumentError("--model names no network; `vista models` lists those that ship")
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
        Nobody publishes weights for the network.
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
        raise InvalidArgumentError(f"--random-weights: {card.name} has weights; leave out one of the two")


def is_regression(downstream: str) -> bool:
    """Whether ``--downstream`` is a regression, by the name of its class; a function's name does not tell."""
    name = downstream_name(downstream)
    return name.endswith(("Regressor", "Regression")) and name != "LogisticRegression"


def features_line(columns: Sequence[str], on: str, label: str, *, chosen: bool) -> str:
    """Say which structured features are used, and why where nobody named them."""
    why = f" (every numeric column but {on} and {label}; --features names others)" if chosen else ""
    return f"structured features: {', '.join(columns) or 'none'}{why}"


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
            f"--downstream {text!r}{nearest(text, _DOWNSTREAM)}; one of {', '.join(_DOWNSTREAM)}, or "
            "package.module:callable"
        )
    return attribute
