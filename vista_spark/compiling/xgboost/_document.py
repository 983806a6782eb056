"""Model document of XGBoost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import UnsupportedOperatorError
from vista_spark.compiling._refusals import damaged, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["ModelDocument"]

_CODES = "Fit on the codes (series.cat.codes) with feature_types='c'."

# The objectives whose base score is a probability, or the exponential of a score.
_LOGISTIC = frozenset({"binary:logistic", "reg:logistic"})
_LOGARITHMIC = frozenset({"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"})


@dataclass(frozen=True, eq=False, slots=True)
class ModelDocument:
    """Model of XGBoost, as data.

    ``base`` are float32 base scores by column, ``target`` is the column of scores of each tree, and ``scale`` the
    factors of the leaves per tree, for dart. ``rounds`` has the first tree of each iteration, and the end. ``weights``
    of a linear booster have shape (features + 1, columns), the bias last. ``categories`` are by code, for each column
    that XGBoost encodes. ``missing`` is the mark of missing values, beside NaN. ``refuses_infinities`` if rows pass a
    ``DMatrix``. ``best`` is the best iteration, if training stopped early.
    """

    n_features_in_: int
    feature_names_in_: tuple[str, ...] | None
    objective: str
    base: NDArray[np.float32]
    trees: list[Mapping[str, Any]]
    target: NDArray[np.int64]
    scale: NDArray[np.float32]
    rounds: NDArray[np.int64]
    weights: NDArray[np.float32] | None
    categories: Mapping[int, Sequence[str]] = field(default_factory=dict)
    missing: float = float("nan")
    refuses_infinities: bool = True
    best: int | None = None

    @classmethod
    def parse(cls, data: bytes) -> ModelDocument:
        """Read a document in JSON, or in UBJ with the package xgboost.

        Raises
        ------
        UnsupportedOperatorError
            It is no model of XGBoost, is cut off, or numbers categories that are no texts.
        """
        # Both formats begin with a brace. JSON goes on with a quotation mark, UBJ with the type of a length.
        is_json = data[1:].lstrip()[:1] == b'"'
        try:
            return _read(json.loads(data if is_json else _json_of(data))["learner"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, UnsupportedOperatorError):
                raise
            raise damaged("model of XGBoost", error) from error

    def until(self, iterations: int) -> ModelDocument:
        """Return the model of the first iterations."""
        end = int(self.rounds[iterations])
        return replace(
            self,
            trees=self.trees[:end],
            target=self.target[:end],
            scale=self.scale[:end],
            rounds=self.rounds[: iterations + 1],
        )


def _json_of(data: bytes) -> bytes:
    """Convert a UBJ document to JSON."""
    try:
        from xgboost import Booster
    except ImportError as error:
        remedy = "Install xgboost, or save the model as JSON."
        raise refusal("A UBJ file of XGBoost", "reading it needs the package xgboost", remedy) from error
    booster = Booster()
    booster.load_model(bytearray(data))
    return bytes(booster.save_raw("json"))


def _read(learner: Mapping[str, Any]) -> ModelDocument:
    sizes, objective = learner["learner_model_param"], learner["objective"]["name"]
    width = int(sizes["num_feature"])
    columns = max(int(sizes["num_class"]), int(sizes.get("num_target", "1")), 1)
    scores = np.array(json.loads(sizes["base_score"]), np.float32).reshape(-1)
    base = np.broadcast_to(_margin(objective, scores), columns).copy()
    booster, scale = learner["gradient_booster"], None
    if booster["name"] == "dart":
        scale = np.array(booster["weight_drop"], np.float32)
        booster = booster["gbtree"]
    names = tuple(learner.get("feature_names", ())) or None
    best = learner.get("attributes", {}).get("best_iteration")
    model = booster["model"]
    if booster["name"] == "gblinear":
        weights = np.array(model["weights"], np.float32).reshape(width + 1, columns)
        nothing = np.zeros(0, np.int64)
        # The linear booster adds the first class's base to all classes (release 3.2, which writes one for each).
        base = np.broadcast_to(base[:1], columns).copy()
        return ModelDocument(
            width, names, objective, base, [], nothing, np.zeros(0, np.float32), np.zeros(1, np.int64), weights
        )
    trees = list(model["trees"])
    target = np.array(model["tree_info"], np.int64)
    vectors = bool(trees) and int(trees[0]["tree_param"].get("size_leaf_vector", "1")) > 1
    parallel = int(model["gbtree_model_param"]["num_parallel_tree"]) * (1 if vectors else columns)
    return ModelDocument(
        width,
        names,
        objective,
        base,
        trees,
        np.zeros(len(trees), np.int64) if vectors else target,
        np.ones(len(trees), np.float32) if scale is None else scale,
        # Releases before 2.0 do not write where iterations begin.
        np.array(model.get("iteration_indptr", np.arange(0, len(trees) + 1, parallel)), np.int64),
        None,
        _categories(model.get("cats", {})),
        best=None if best is None else int(best),
    )


def _margin(objective: str, base: NDArray[np.float32]) -> NDArray[np.float32]:
    with np.errstate(divide="ignore"):
        if objective in _LOGISTIC:
            return -_logarithm(np.float32(1) / base - np.float32(1))
        return _logarithm(base) if objective in _LOGARITHMIC else base


def _logarithm(x: NDArray[Any]) -> NDArray[np.float32]:
    # Rounded once: the float32 logarithm of numpy may be off by a step.
    return np.log(x.astype(np.float64)).astype(np.float32)


def _categories(container: Mapping[str, Any]) -> dict[int, list[str]]:
    """Return the texts that XGBoost encodes, by column. Numbers are refused: arrays hold codes, DataFrames values."""
    texts = {}
    for column, encoding in enumerate(container.get("enc", ())):
        values = list(encoding.get("values", ()))
        if values and "offsets" in encoding:
            ends = [int(end) for end in encoding["offsets"]]
            data = bytes(int(byte) % 256 for byte in values)
            if not data.isascii():
                reason = "XGBoost truncates their names"
                raise refusal(f"XGBoost with categories in column {column} that are not ASCII", reason, _CODES)
            texts[column] = [data[start:end].decode() for start, end in pairwise(ends)]
        elif values and ("type" not in encoding or values != list(range(len(values)))):
            reason = "XGBoost numbers them itself"
            raise refusal(f"XGBoost with categories in column {column} that are numbers", reason, _CODES)
    return texts
