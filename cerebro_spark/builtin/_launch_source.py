"""Source of the models of a launch document."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cerebro_spark.builtin._load import builtin_model, find_model
from cerebro_spark.builtin._source import ModelSource, unchanged
from optimizer.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from udfs.requests import RequestContext

__all__ = ["load_source"]

# ``s3://``, and ``sparkfile:`` of a file that workers have.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def load_source(source: Mapping[str, Any], document: Mapping[str, Any], context: RequestContext) -> ModelSource:
    """Return the trainer, search space and settings of a launch document's source.

    Parameters
    ----------
    source : mapping
        ``{"builtin": name, "training": "full" or "frozen", "weights": URI or null}``, or ``{"script": sha256}``.
    document : mapping
        Launch document, for the table, the columns and the settings.
    context : RequestContext
        Context of the request, with the Spark session.

    Returns
    -------
    ModelSource
        Its ``settings`` are those of the source with those of the document, and take precedence over the document:
        they name the columns that ``convert_table`` makes of the user's. Its ``search_space`` is the default one.

    Raises
    ------
    InvalidArgumentError, LabelError
        The source, a column or a setting is not valid.
    """
    if "builtin" in source:
        return _builtin(source, document, context)
    if "script" in source:
        return _script(source["script"], document, context)
    raise InvalidArgumentError(f"source must have builtin, script or run, got {dict(source)!r}.")


def _builtin(source: Mapping[str, Any], document: Mapping[str, Any], context: RequestContext) -> ModelSource:
    from cerebro_spark.builtin._classes import count_classes, integer_labels, is_fractional  # imports pyspark
    from udfs.driver import read_table  # imports pyspark

    model = find_model(source["builtin"])
    training = source.get("training") or "frozen"
    model.check_parameters(training, document.get("search_space") or {})
    weights = source.get("weights") or None
    if weights is not None and model.input == "image":
        _check_file(weights)
    column, label = (_only(document, name) for name in ("feature_columns", "label_columns"))
    settings = _settings(document)
    df = read_table(context.spark, document["table"], document.get("table_format"))
    if column not in df.columns:
        raise InvalidArgumentError(
            f"feature_columns must be columns of the table ({', '.join(df.columns)}), got {column!r}."
        )
    classes, is_float = settings.pop("num_classes", None), is_fractional(df, label)
    # Floats are read in any case, because their fractions would be cut off.
    counted = count_classes(df, label) if is_float or not classes else classes
    built = builtin_model(
        model.name,
        column=column,
        label=label,
        num_classes=classes or counted,
        training=training,
        weights=weights,
        **settings,
    )
    if not is_float:
        return built
    return replace(built, convert_table=partial(integer_labels, label=label, convert=built.convert_table))


def _check_file(weights: Any) -> None:
    """Refuse a local path of weights that does not exist; URIs are read with the first model."""
    if not isinstance(weights, str):
        raise InvalidArgumentError(f"weights must be a path or URI, got {weights!r}.")
    if _SCHEME.match(weights) is None and not Path(weights).expanduser().exists():
        raise InvalidArgumentError(
            f"weights must be a file on the machine of the pool, or a URI, got {weights!r}, which does not exist. "
            "Correct the path, or copy the file to that machine"
        )


def _script(sha256: Any, document: Mapping[str, Any], context: RequestContext) -> ModelSource:
    from cerebro_spark.scripts import (  # the server, which shows the models, needs neither
        ScriptFunction,
        checked_script,
    )
    from optimizer.space import Space  # imports numpy

    script = checked_script(sha256, context)
    if not script["trainer"]:
        raise InvalidArgumentError(
            "script must define trainer_fn(params), which returns a ModelTrainer, got none. See examples/searches"
        )
    settings = {**script["settings"], **_settings(document)}
    settings.pop("procedure", None)
    for name in ("feature_columns", "label_columns"):
        columns = document.get(name) or settings.get(name)
        if not columns:
            raise InvalidArgumentError(
                f"{name} must name the columns of the table, in the form or in the script, got none."
            )
        settings[name] = columns
    text, space = script["text"], script.get("space")
    return ModelSource(
        trainer_fn=ScriptFunction(text, "trainer_fn"),
        # A script without a space has the hyperparameters of the form.
        search_space=Space.of(space) if space else {name: [] for name in document.get("search_space") or {}},
        settings=settings,
        convert_table=ScriptFunction(text, "convert_table") if script["converts"] else unchanged,
    )


def _settings(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in (document.get("settings") or {}).items() if value is not None}


def _only(document: Mapping[str, Any], name: str) -> str:
    columns = document.get(name)
    if not isinstance(columns, list) or len(columns) != 1 or not isinstance(columns[0], str):
        raise InvalidArgumentError(f"{name} must name one column for a built-in model, got {columns!r}.")
    return columns[0]
