"""The columns that a model takes, as its library says it."""

from __future__ import annotations

from typing import Any

__all__ = ["names_of", "width_of"]

_ONE_COLUMN = frozenset(
    {"CountVectorizer", "HashingVectorizer", "LabelBinarizer", "LabelEncoder", "TfidfVectorizer"}
    | {"DictVectorizer", "FeatureHasher", "MultiLabelBinarizer"}
)
"""Classes of scikit-learn that take one column, as an array of one dimension, or a list of lists or dictionaries."""


def width_of(model: Any) -> int | None:
    """Count the columns; one whose first steps pass all through, or none, says it further on.

    ``None`` for a model that is not fitted.
    """
    if type(model).__name__ in _ONE_COLUMN:
        return 1
    width = _said(model, "n_features_in_")
    for method in ("num_feature", "num_features") if width is None else ():  # Boosters of LightGBM, of XGBoost
        if callable(count := getattr(model, method, None)):
            return int(count())
    if width is None and hasattr(model, "X_thresholds_"):
        return 1  # isotonic regression, of one column
    for _, step in getattr(model, "steps", getattr(model, "transformer_list", ())) if width is None else ():
        if step is not None and not isinstance(step, str):
            return width_of(step)
    return None if width is None else int(width)


def names_of(model: Any) -> list[str] | None:
    """Give the names of the columns, where the model was fitted on columns with names."""
    names = None
    if type(model).__name__ in _ONE_COLUMN:
        return None  # its names are those of the columns that it gives
    for attribute in ("feature_names_in_", "feature_names_", "feature_names", "feature_name"):
        names = _said(model, attribute)
        if names is not None:
            break
    given = [str(name) for name in (names() if callable(names) else names if names is not None else ())]
    # Some libraries number the columns that have no names.
    numbered = any(given == [f"{start}{place}" for place in range(len(given))] for start in ("", "Column_"))
    return None if numbered or not given else given


def _said(model: Any, attribute: str) -> Any:
    try:
        return getattr(model, attribute, None)
    except Exception as error:  # a library's own error for a model that is not fitted
        if "fit" in str(error).lower() or "train" in str(error).lower():
            return None
        raise
