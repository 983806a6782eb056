"""Which transformers of scikit-learn give sparse tables, and whether a zero may be written in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from optimizer.compiling import Sparsity

__all__ = ["sparsity_of"]


def sparsity_of(step: Any, given: Sparsity) -> Sparsity:
    """Tell how a transformer's result is held: as it says of itself, or as the table that it was given.

    Parameters
    ----------
    step : estimator
        Fitted.
    given : Sparsity
        Of its table.
    """
    rule = _RULES.get(type(step).__name__)
    if rule is not None:
        return rule(step, given)
    if isinstance(found := getattr(step, "sparse_output", None), bool):
        return "absent" if found else "dense"
    return given if hasattr(step, "get_support") else "dense"


def _of_pipeline(step: Any, given: Sparsity) -> Sparsity:
    for one in _steps(step.steps):
        given = given if one is None or isinstance(one, str) else sparsity_of(one, given)
    return given


def _of_union(step: Any, given: Sparsity) -> Sparsity:
    return _joined(step.transformer_list, given)


def _of_columns(step: Any, given: Sparsity) -> Sparsity:
    if not step.sparse_output_:
        return "dense"
    # What is dense among its parts comes in without its zeros.
    return "written" if _joined(step.transformers_, given) == "written" else "absent"


def _joined(named: Iterable[tuple[Any, ...]], given: Sparsity) -> Sparsity:
    """Of tables side by side, which are a sparse one where one of them is."""
    found = {given if isinstance(one, str) else sparsity_of(one, given) for one in _steps(named)}
    return "written" if "written" in found else "absent" if "absent" in found else "dense"


def _steps(named: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [entry[1] for entry in named if not (isinstance(entry[1], str) and entry[1] == "drop")]


def _as_given(_: Any, given: Sparsity) -> Sparsity:
    return given


def _absent(*_: Any) -> Sparsity:
    return "absent"


def _written(*_: Any) -> Sparsity:
    return "written"


def _written_if_sparse(step: Any, _: Sparsity) -> Sparsity:
    return "written" if getattr(step, "sparse_output", False) or getattr(step, "sparse", False) else "dense"


def _of_bins(step: Any, _: Sparsity) -> Sparsity:
    return "absent" if step.encode == "onehot" else "dense"


def _of_hashed_terms(step: Any, _: Sparsity) -> Sparsity:
    # The signs of two terms in one column may come to zero.
    return "written" if step.alternate_sign else "absent"


def _of_indicators(step: Any, given: Sparsity) -> Sparsity:
    return "absent" if step.sparse is True or (step.sparse == "auto" and given != "dense") else "dense"


def _of_projection(step: Any, given: Sparsity) -> Sparsity:
    return "dense" if given == "dense" or step.dense_output else "written"


def _of_quantiles(_: Any, given: Sparsity) -> Sparsity:
    return "dense" if given == "dense" else "written"


def _of_imputer(step: Any, given: Sparsity) -> Sparsity:
    return "written" if given != "dense" and 0 in step.statistics_ else given


def _of_binarizer(_: Any, given: Sparsity) -> Sparsity:
    return "dense" if given == "dense" else "absent"


def _of_weights(_: Any, given: Sparsity) -> Sparsity:
    # Of dense counts it makes a sparse table.
    return "absent" if given == "dense" else given


_RULES: Mapping[str, Callable[[Any, Sparsity], Sparsity]] = {
    **dict.fromkeys(("CountVectorizer", "TfidfVectorizer"), _absent),
    **dict.fromkeys(("DictVectorizer", "SplineTransformer"), _written_if_sparse),
    **dict.fromkeys(
        (
            "AdditiveChi2Sampler",
            "FunctionTransformer",
            "MaxAbsScaler",
            "Normalizer",
            "PolynomialFeatures",
            "QuantileTransformer",
            "RobustScaler",
            "StandardScaler",
        ),
        _as_given,
    ),
    "Binarizer": _of_binarizer,
    "ColumnTransformer": _of_columns,
    "FeatureHasher": _written,
    "FeatureUnion": _of_union,
    "HashingVectorizer": _of_hashed_terms,
    "KBinsDiscretizer": _of_bins,
    "MissingIndicator": _of_indicators,
    "Pipeline": _of_pipeline,
    "QuantileTransformer": _of_quantiles,
    "SimpleImputer": _of_imputer,
    "SparseRandomProjection": _of_projection,
    "TfidfTransformer": _of_weights,
}
