"""Number and names of the columns that a fitted model reads."""

from __future__ import annotations

from typing import Any

__all__ = ["names_of", "width_of"]

_ONE_COLUMN = frozenset(
    {"CountVectorizer", "HashingVectorizer", "LabelBinarizer", "LabelEncoder", "TfidfVectorizer"}
    | {"DictVectorizer", "MultiLabelBinarizer"}
)
"""Classes of scikit-learn that read one column: a flat array, or a list of lists or dictionaries."""


def width_of(model: Any) -> int | None:
    """Return the number of columns of a model, from its first step if need be; ``None`` if it is not fitted."""
    if type(model).__name__ in _ONE_COLUMN:
        return 1
    width = _attribute(model, "n_features_in_")
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
    """Return the names of the columns of a model; ``None`` for a model that was fitted without names."""
    names = None
    if type(model).__name__ in _ONE_COLUMN:
        return None  # its names are those of its results
    for attribute in ("feature_names_in_", "feature_names_", "feature_names", "feature_name"):
        names = _attribute(model, attribute)
        if names is not None:
            break
    texts = [str(name) for name in (names() if callable(names) else names if names is not None else ())]
    # Some libraries number columns without names.
    numbered = any(texts == [f"{start}{place}" for place in range(len(texts))] for start in ("", "Column_"))
    return None if numbered or not texts else texts


def _attribute(model: Any, name: str) -> Any:
    try:
        return getattr(model, name, None)
    except Exception as error:  # a library's own error for a model that is not fitted
        if "fit" in str(error).lower() or "train" in str(error).lower():
            return None
        raise
