"""Model document of CatBoost."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import UnsupportedOperatorError
from vista_spark.compiling._refusals import damaged, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["CODES", "ModelDocument", "document_of"]

CODES = "Fit on numbers, such as one column per category, or score the model with CatBoost."
"""Remedy for features that are not numbers."""
_REASON = "its models keep hashes of categories, and statistics of texts and embeddings"
_OPTIONS = {"cat": "cat_features", "embedding": "embedding_features", "text": "text_features"}


@dataclass(frozen=True, eq=False, slots=True)
class ModelDocument:
    """Model of CatBoost, as data.

    ``columns`` has the column of the table of each feature, ``missing`` its treatment of NaN: "AsIs", "AsFalse" or
    "AsTrue". ``symmetric`` trees have one split per level. Sums of leaves are multiplied by ``scale``; ``bias`` of
    shape (scores,) is added.
    """

    n_features_in_: int
    feature_names_in_: tuple[str, ...] | None
    columns: list[int]
    missing: list[str]
    trees: list[Mapping[str, Any]]
    symmetric: bool
    scale: float
    bias: NDArray[np.float64]
    loss: str

    @classmethod
    def parse(cls, data: bytes) -> ModelDocument:
        """Read a document in JSON.

        Raises
        ------
        UnsupportedOperatorError
            It is no model of CatBoost, or is cut off; or it reads texts or embeddings.
        """
        try:
            return _read(json.loads(data))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, UnsupportedOperatorError):
                raise
            raise damaged("model of CatBoost", error) from error


def document_of(model: Any) -> ModelDocument:
    """Read a fitted model, through the file that it writes."""
    for kind, option in _OPTIONS.items():
        places = getattr(model, f"get_{kind}_feature_indices")()
        if places:
            names = [str(model.feature_names_[place]) for place in places]
            raise refusal(f"{type(model).__name__} with {option}={names}", _REASON, CODES)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        document = ModelDocument.parse(path.read_bytes())
    # The file rounds the bias to float32.
    scale, bias = model.get_scale_and_bias()
    return replace(document, scale=float(scale), bias=np.asarray(bias, np.float64).reshape(-1))


def _read(document: Mapping[str, Any]) -> ModelDocument:
    features = document["features_info"]
    for kind in ("categorical_features", "embedding_features", "text_features"):
        if features.get(kind):
            raise refusal(f"CatBoost with {kind}", _REASON, CODES)
    numbers = features.get("float_features") or []
    columns = [int(feature["flat_feature_index"]) for feature in numbers]
    names = [
        str(feature.get("feature_id", ""))
        for feature in sorted(numbers, key=lambda feature: int(feature["flat_feature_index"]))
    ]
    scale, bias = document.get("scale_and_bias", (1.0, [0.0]))
    symmetric = "oblivious_trees" in document
    params = document.get("model_info", {}).get("params", {})
    params = json.loads(params) if isinstance(params, str) else params
    return ModelDocument(
        max(columns, default=-1) + 1,
        tuple(names) if all(names) and names != [str(place) for place in range(len(names))] else None,
        columns,
        [str(feature["nan_value_treatment"]) for feature in numbers],
        list(document["oblivious_trees" if symmetric else "trees"]),
        symmetric,
        float(scale),
        np.asarray(bias, np.float64).reshape(-1),
        str(params.get("loss_function", {}).get("type", "")),
    )
