"""Sparsity of the tables that transformers of scikit-learn return, and whether they may hold explicit zeros."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from optimizer.compiling import Sparsity

__all__ = ["sparsity_of"]


def sparsity_of(step: Any, layout: Sparsity) -> Sparsity:
    """Return the layout of a transformer's result."""
    rule = _RULES.get(type(step).__name__)
    if rule is not None:
        return rule(step, layout)
    if isinstance(flag := getattr(step, "sparse_output", None), bool):
        return "absent" if flag else "dense"
    return layout if hasattr(step, "get_support") else "dense"


def _of_pipeline(step: Any, layout: Sparsity) -> Sparsity:
    for inner in _steps(step.steps):
        layout = layout if inner is None or isinstance(inner, str) else sparsity_of(inner, layout)
    return layout


def _of_union(step: Any, layout: Sparsity) -> Sparsity:
    return _joined(step.transformer_list, layout)


def _of_columns(step: Any, layout: Sparsity) -> Sparsity:
    if not step.sparse_output_:
        return "dense"
    # What is dense among its parts comes in without its zeros.
    return "written" if _joined(step.transformers_, layout) == "written" else "absent"


def _joined(named: Iterable[tuple[Any, ...]], layout: Sparsity) -> Sparsity:
    """Return the layout of concatenated tables, which are sparse if one of them is."""
    layouts = {layout if isinstance(inner, str) else sparsity_of(inner, layout) for inner in _steps(named)}
    return "written" if "written" in layouts else "absent" if "absent" in layouts else "dense"


def _steps(named: Iterable[tuple[Any, ...]]) -> list[Any]:
    return [entry[1] for entry in named if not (isinstance(entry[1], str) and entry[1] == "drop")]


def _as_given(_: Any, layout: Sparsity) -> Sparsity:
    return layout


def _absent(*_: Any) -> Sparsity:
    return "absent"


def _written_if_sparse(step: Any, _: Sparsity) -> Sparsity:
    return "written" if getattr(step, "sparse_output", False) or getattr(step, "sparse", False) else "dense"


def _of_bins(step: Any, _: Sparsity) -> Sparsity:
    return "absent" if step.encode == "onehot" else "dense"


def _of_hashed_terms(step: Any, _: Sparsity) -> Sparsity:
    # The signs of two terms in one column may come to zero.
    return "written" if step.alternate_sign else "absent"


def _of_indicators(step: Any, layout: Sparsity) -> Sparsity:
    return "absent" if step.sparse is True or (step.sparse == "auto" and layout != "dense") else "dense"


def _of_projection(step: Any, layout: Sparsity) -> Sparsity:
    return "dense" if layout == "dense" or step.dense_output else "written"


def _of_quantiles(_: Any, layout: Sparsity) -> Sparsity:
    return "dense" if layout == "dense" else "written"


def _of_imputer(step: Any, layout: Sparsity) -> Sparsity:
    return "written" if layout != "dense" and 0 in step.statistics_ else layout


def _of_binarizer(_: Any, layout: Sparsity) -> Sparsity:
    return "dense" if layout == "dense" else "absent"


def _of_weights(_: Any, layout: Sparsity) -> Sparsity:
    # Of dense counts it makes a sparse table.
    return "absent" if layout == "dense" else layout


_RULES: Mapping[str, Callable[[Any, Sparsity], Sparsity]] = {
    **dict.fromkeys(("CountVectorizer", "TfidfVectorizer"), _absent),
    **dict.fromkeys(("DictVectorizer",), _written_if_sparse),
    **dict.fromkeys(
        (
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
