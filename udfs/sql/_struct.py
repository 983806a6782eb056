"""Types of what the SQL functions give."""

from __future__ import annotations

import pyarrow as pa

from udfs.arrow import VECTOR

__all__ = ["EXPLAINED_FEATURES", "EXPLAINED_PREDICTION", "FEATURES", "PREDICTION", "REASONS"]

REASONS = (pa.field("error", pa.string()), pa.field("detail", pa.string()))
"""Why a row is bad, and what the reason leaves open; null for a good row."""

FEATURES = VECTOR
"""Of ``cnn_features`` and ``text_features``."""

EXPLAINED_FEATURES = pa.struct([pa.field("features", VECTOR), *REASONS])
"""Of ``cnn_features_or_error`` and ``text_features_or_error``."""

PREDICTION = pa.float64()
"""Of ``predict_tuned``."""

_NUMBERS = pa.list_(pa.field("item", pa.float64(), nullable=False))

EXPLAINED_PREDICTION = pa.struct(
    [
        pa.field("prediction", PREDICTION),
        pa.field("probability", _NUMBERS),
        pa.field("raw_prediction", _NUMBERS),
        *REASONS,
    ]
)
"""Of ``predict_tuned_or_error``; there is no probability where the label is a value."""
