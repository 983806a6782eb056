"""CatBoost's model document, from its JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import UnsupportedOperatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["ModelDocument", "document_of"]


@dataclass(frozen=True, eq=False, slots=True)
class ModelDocument:
    """A model of CatBoost. Data: nothing in it is run.

    Parameters
    ----------
    n_features_in_ : int
    feature_names_in_ : tuple of str or None
    columns : list of int
        Column of the table of each feature of numbers.
    missing : list of str
        Of each feature of numbers: "AsIs", "AsFalse" or "AsTrue".
    categories : list of int
        Column of the table of each feature of categories.
    trees : list of dict
        As the document has them.
    symmetric : bool
        Whether a tree has one split for each level.
    scale : float
    bias : float64 array of shape (scores,)
    loss : str
        Name of the loss that the model was fitted with.
    """

    n_features_in_: int
    feature_names_in_: tuple[str, ...] | None
    columns: list[int]
    missing: list[str]
    categories: list[int]
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
            raise UnsupportedOperatorError(f"not a model of CatBoost, or cut off: {error!r}") from error


def document_of(model: Any) -> ModelDocument:
    """Read a fitted model, through the file that it writes."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(str(path), format="json")
        document = ModelDocument.parse(path.read_bytes())
    # The file rounds the bias to float32.
    scale, bias = model.get_scale_and_bias()
    return replace(document, scale=float(scale), bias=np.asarray(bias, np.float64).reshape(-1))


def _read(document: Mapping[str, Any]) -> ModelDocument:
    features = document["features_info"]
    for kind in ("text_features", "embedding_features"):
        if features.get(kind):
            raise UnsupportedOperatorError(f"CatBoost with {kind} has no translation: fit on numbers")
    numbers, categories = (features.get(f"{kind}_features") or [] for kind in ("float", "categorical"))
    columns, texts = ([int(one["flat_feature_index"]) for one in some] for some in (numbers, categories))
    ordered = sorted([*numbers, *categories], key=lambda one: int(one["flat_feature_index"]))
    names = [str(one.get("feature_id", "")) for one in ordered]
    scale, bias = document.get("scale_and_bias", (1.0, [0.0]))
    symmetric = "oblivious_trees" in document
    params = document.get("model_info", {}).get("params", {})
    params = json.loads(params) if isinstance(params, str) else params
    return ModelDocument(
        max([*columns, *texts], default=-1) + 1,
        tuple(names) if all(names) and names != [str(place) for place in range(len(names))] else None,
        columns,
        [str(one["nan_value_treatment"]) for one in numbers],
        texts,
        list(document["oblivious_trees" if symmetric else "trees"]),
        symmetric,
        float(scale),
        np.asarray(bias, np.float64).reshape(-1),
        str(params.get("loss_function", {}).get("type", "")),
    )
