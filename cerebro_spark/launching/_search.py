"""Search of a launch document: its source, space and settings put together and validated."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import cerebro_spark
from cerebro_spark.builtin import MODEL_SETTINGS, load_source, unchanged
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.hopper import Journal, uses_slots
from cerebro_spark.launching._document import LaunchDocument, columns_of
from cerebro_spark.launching._labels import is_text, number_labels, read_classes
from cerebro_spark.launching._launched import Launched, launch_record
from cerebro_spark.launching._left_out import reason_names
from cerebro_spark.launching._spaces import check_grid, search_space
from cerebro_spark.launching._table import check_columns, load_table, table_schema
from cerebro_spark.tune import PROCEDURES
from optimizer.errors import nearest
from udfs.shards import load_prepared

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cerebro_spark.builtin import ModelSource
    from cerebro_spark.tune import Search
    from udfs.requests import RequestContext
    from udfs.shards import PreparedData
    from udfs.store import Store

__all__ = ["LaunchSearch", "build_search", "typed_space"]

# Parameters of a search that its source, the pool or the document sets, and objects, which are no plain data.
_RESERVED = {
    *("backend", "store", "trainer_fn", "search_space", "feature_columns", "label_columns", "stoppers", "callbacks"),
    *("experiment", "tensorboard", "progress", "study", "study_trials"),
}
_NUM_EPOCHS = 10
# Those that the shards of a drill-down have already.
_PREPARATION = ("weight_column", "image_size", "test_fraction", "num_shards", "errors")


@dataclass(frozen=True, slots=True)
class LaunchSearch:
    """Search of a launch, and where its rows come from.

    Parameters
    ----------
    document : LaunchDocument
        Document.
    search : Search
        Search that is ready to start.
    convert_table : callable or None
        Converts the table to the columns that the model reads; None for a drill-down.
    prepared : PreparedData or None
        Shards of the parent of a drill-down; None if the table has to be prepared.
    labels : dict of str to list of str
        Names of the classes of each label that is a string, in the order of their numbers.
    reasons : dict of str to str
        Reasons for which rows are left out, and their words for the user of the table.
    """

    document: LaunchDocument
    search: Search
    convert_table: Callable[[Any], Any] | None
    prepared: PreparedData | None
    labels: dict[str, list[str]] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)


def build_search(
    document: LaunchDocument, context: RequestContext, labels: dict[str, list[str]] | None = None
) -> LaunchSearch:
    """Load the source of a launch, and validate everything that can be without training.

    Parameters
    ----------
    document : LaunchDocument
        Document.
    context : RequestContext
        Context of the request.
    labels : dict of str to list of str, optional
        Names of the classes that an earlier process read. Default: they are read from the table.

    Raises
    ------
    CerebroError
        A table, column, procedure, setting, hyperparameter or source is not valid; the message names the remedy.
    """
    search_class = getattr(cerebro_spark, PROCEDURES[document.procedure])
    allowed = {name: each for name, each in signature(search_class).parameters.items() if name not in _RESERVED}
    _check_settings(document, allowed, search_class.__name__)
    if document.procedure == "grid":
        check_grid(document.search_space)
    prepared, convert, defaults, reasons = None, None, {}, {}
    if document.parent:
        parent, prepared, labels = _parent(document, context)
        trainer_fn, space = parent.trainer_fn, vars(parent)["search_space"]
        defaults = {name: getattr(parent, name) for name in ("metric", "mode", "seed", "keep", *_PREPARATION)}
        defaults |= {name: getattr(parent, name) for name in ("feature_columns", "label_columns")}
    else:
        schema = table_schema(context.spark, document.table, document.table_format)["columns"]
        known = [each["name"] for each in schema]
        texts = [each["name"] for each in schema if is_text(each["type"])]
        check_columns([*columns_of(document.feature_columns), *document.label_columns], known)
        if "builtin" in document.source:
            # The network of a built-in model has an output per class.
            labels = _classes(document, document.label_columns, texts, context) if labels is None else labels
        source = _loaded(document, context, labels)
        trainer_fn, space = source.trainer_fn, source.search_space
        convert = source.convert_table
        columns = {"feature_columns": document.feature_columns, "label_columns": document.label_columns}
        defaults = {name: value for name, value in columns.items() if value} | dict(source.settings)
        label_columns = columns_of(defaults.get("label_columns") or [])
        others = [*label_columns, *filter(None, [document.settings.get("weight_column")])]
        defaults.setdefault("feature_columns", [name for name in known if name not in others])
        if "builtin" in document.source:
            reasons = reason_names(columns_of(document.feature_columns), columns_of(defaults["feature_columns"]), texts)
        if not label_columns:
            raise InvalidArgumentError("label_columns must name the columns to predict, got none.")
        # A script that converts its table numbers the labels itself.
        if labels is None and convert is unchanged:
            labels = _classes(document, label_columns, texts, context)
        if labels:
            convert = partial(number_labels, labels=labels, convert=convert)
    # What only other procedures have is no setting of this one.
    settings = {
        name: value for name, value in defaults.items() if name in {*allowed, "feature_columns", "label_columns"}
    }
    settings |= {name: value for name, value in document.settings.items() if name in allowed}
    if document.procedure == "grid":
        settings.setdefault("num_epochs", _NUM_EPOCHS)
    missing = [name for name, each in allowed.items() if each.default is Parameter.empty and name not in settings]
    if missing:
        raise InvalidArgumentError(f"settings must have {', '.join(missing)} for {search_class.__name__}, got none.")
    search = search_class(
        backend=context.backend,
        store=context.store,
        trainer_fn=trainer_fn,
        search_space=search_space(document.search_space, space),
        progress=False,
        **settings,
    )
    return LaunchSearch(document, search, convert, prepared, labels or {}, reasons)


def _check_settings(document: LaunchDocument, allowed: Mapping[str, Parameter], search_class: str) -> None:
    """Refuse settings that are unknown, or that belong to another procedure."""
    # A built-in model has settings of its own.
    extra = MODEL_SETTINGS if "builtin" in document.source else ()
    for name in document.settings:
        if name not in allowed and name not in extra:
            known = ", ".join(sorted(allowed))
            raise InvalidArgumentError(
                f"settings must be those of {search_class} ({known}), got {name!r}{nearest(name, list(allowed)) or '.'}"
            )


def _check_shards(document: LaunchDocument, parent: Search, table: str) -> None:
    """Refuse a drill-down that asks for other rows or columns than its parent's shards have."""
    asked = {name: document.settings[name] for name in _PREPARATION if name in document.settings}
    asked |= {name: getattr(document, name) for name in ("feature_columns", "label_columns") if getattr(document, name)}
    theirs = {name: getattr(parent, name) for name in asked} | {"table": table}
    for name, value in (asked | ({"table": document.table} if document.table else {})).items():
        if value != theirs[name]:
            raise InvalidArgumentError(
                f"{name} must be that of {document.parent}, {theirs[name]!r}, or be left out, got {value!r}: a "
                "drill-down trains on the same shards."
            )


def _classes(
    document: LaunchDocument, columns: list[str], texts: list[str], context: RequestContext
) -> dict[str, list[str]]:
    """Read the classes of the labels that are strings; other labels need no Spark job."""
    named = [name for name in columns if name in texts]
    if not named:
        return {}
    table = load_table(context.spark, document.table, document.table_format)
    with uses_slots(context.spark):
        return read_classes(table, named)


def _parent(document: LaunchDocument, context: RequestContext) -> tuple[Search, PreparedData, dict[str, list[str]]]:
    """Return the search of the parent, its shards, and the names of its classes."""
    known = context.searches.get(document.parent)
    if isinstance(known, Launched):
        _check_shards(document, known.search, _table_of(known.document, context))
        return known.search, known.prepared, known.labels
    record = launch_record(context.store, document.parent)
    if record is None:
        listed = sorted(context.searches)
        shown = ", ".join(listed) or "none"
        raise InvalidArgumentError(
            f"run of source must be a search that this pool has launched ({shown}), got {document.parent!r}"
            f"{nearest(document.parent, listed) or '.'}"
        )
    built = build_search(LaunchDocument.read(record["document"]), context, record["labels"])
    _check_shards(document, built.search, _table_of(record["document"], context))
    prepared = load_prepared(context.store, Journal(context.store, document.parent).spec().prepared)
    return built.search, prepared, built.labels


def typed_space(document: Mapping[str, Any], store: Store) -> dict[str, Any] | None:
    """Return the typed domains of a launch, for a drill-down with those of its parent; None for those of the source."""
    parent = document["source"].get("run")
    record = launch_record(store, parent) if parent else None
    inherited = None if record is None else typed_space(record["document"], store)
    return {**(inherited or {}), **(document.get("search_space") or {})} or None


def _table_of(document: Mapping[str, Any], context: RequestContext) -> str:
    """Return the table of a launch, for a drill-down that of the search which it began with."""
    parent = document["source"].get("run")
    record = launch_record(context.store, parent) if parent else None
    return str(document.get("table") or "") if record is None else _table_of(record["document"], context)


def _loaded(document: LaunchDocument, context: RequestContext, labels: Mapping[str, list[str]] | None) -> ModelSource:
    plain = asdict(document)
    if labels:
        plain["settings"] = {"num_classes": max(2, *map(len, labels.values())), **plain["settings"]}
    # A source may look at the table with Spark.
    with uses_slots(context.spark):
        return load_source(document.source, plain, context)
