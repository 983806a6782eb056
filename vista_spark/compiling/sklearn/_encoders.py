"""Category encoders of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import optimizer.compiling as ops
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling._vocabularies import codes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@parser("sklearn.OrdinalEncoder")
def lower_ordinal(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the places of categories, with values of their own for missing and for unknown ones."""
    tables = []
    for column, categories in enumerate(model.categories_):
        places = np.append(np.arange(len(categories)), 0)
        missing = model._missing_indices.get(column)
        grouped, _ = _grouped(model, column, places, missing)
        values = grouped.astype(np.float64)
        if missing is not None:
            # The library compares after it has grouped: a rare category may come to the missing one's place.
            values[grouped == missing] = model.encoded_missing_value
        values[-1] = model.unknown_value if model.handle_unknown == "use_encoded_value" else -1
        tables.append(values)
    codes, sizes = _codes(model, build, table)
    values = np.concatenate(tables).astype(_dtype(model))[:, None]
    return {"transform": ops.Output(build.add(ops.Recode(values, sizes + 1), codes))}


@parser("sklearn.OneHotEncoder")
def lower_one_hot(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a column per category; of an unknown one all are zero, or that of the rare ones is one."""
    tables = []
    dropped = model._drop_idx_after_grouping
    for column, categories in enumerate(model.categories_):
        places, shown = _grouped(model, column, np.append(np.arange(len(categories)), 0), None)
        if dropped is not None:
            drop = dropped[column]
            shown &= places != drop
            places = np.where(places > (len(categories) if drop is None else drop), places - 1, places)
        tables.append(np.where(shown, places, -1))
    codes, sizes = _codes(model, build, table)
    shown_at = build.add(ops.Recode(np.concatenate(tables).astype(np.int64)[:, None], sizes + 1), codes)
    widths = np.asarray(model._n_features_outs, np.int64)
    columns = build.add(ops.OneHot(widths, np.dtype(_dtype(model)).name), shown_at)
    return {"transform": ops.Output(columns)}


@parser("sklearn.TargetEncoder")
def lower_target(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the mean target of each category, one per class of several; an unknown one has the mean of all."""
    classes = len(model.classes_) if model.target_type_ == "multiclass" else 1
    means = np.atleast_1d(np.asarray(model.target_mean_, np.float64))
    tables = []
    for column in range(len(model.categories_)):
        encodings = model.encodings_[column * classes : (column + 1) * classes]
        tables.append(np.concatenate([np.stack(encodings, axis=1), means[None]]))
    codes, sizes = codes_of(type(model).__name__, build, table, model.categories_)
    return {"transform": ops.Output(build.add(ops.Recode(np.concatenate(tables).astype(np.float64), sizes + 1), codes))}


@parser("sklearn.LabelEncoder")
def lower_labels(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower the places of labels."""
    codes, sizes = codes_of(type(model).__name__, build, table, [np.asarray(model.classes_)])
    return {"transform": ops.Output(build.add(ops.Known(sizes, type(model).__name__), codes), flat=True)}


@parser("sklearn.LabelBinarizer")
def lower_label_binarizer(model: Any, build: ops.Builder, table: str) -> Mapping[str, ops.Output]:
    """Lower a column per label, or one of two; an unknown label is none of them."""
    if model.y_type_ not in {"binary", "multiclass"}:
        raise refuse(model, f"targets of type {model.y_type_}")
    classes = len(model.classes_)
    codes, sizes = codes_of(type(model).__name__, build, table, [np.asarray(model.classes_)])
    values = np.full((classes + 1, classes), model.neg_label, np.int64)
    np.fill_diagonal(values, model.pos_label if classes > 1 else model.neg_label)
    columns = build.add(ops.Recode(values, sizes + 1), codes)
    return {"transform": ops.Output(build.add(ops.Select(np.array([1])), columns) if classes == 2 else columns)}


def _codes(model: Any, build: ops.Builder, table: str) -> tuple[str, NDArray[np.int64]]:
    codes, sizes = codes_of(type(model).__name__, build, table, model.categories_)
    if model.handle_unknown == "error":
        codes = build.add(ops.Known(sizes, type(model).__name__), codes)
    return codes, sizes


def _dtype(model: Any) -> type:
    kind = np.dtype(model.dtype)
    if kind.kind not in "iuf" or kind == np.float16:
        raise refuse(model, f"dtype={model.dtype!r}")
    return np.float32 if kind == np.float32 else np.float64


def _grouped(
    model: Any, column: int, places: NDArray[np.int64], missing: int | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the places after rare categories have become one, and which are shown; the last is that of the unknown."""
    shown = np.arange(len(places)) < len(places) - 1
    if not model._infrequent_enabled or model._infrequent_indices[column] is None:
        return places, shown
    places = places.copy()
    places[-1] = model._infrequent_indices[column][0]
    if model.handle_unknown in {"infrequent_if_exist", "warn"}:
        shown = np.ones_like(shown)
    mapping = model._default_to_infrequent_mappings[column]
    change = np.ones_like(shown) if missing is None else places != missing
    places[change] = mapping[places[change]]
    return places, shown
