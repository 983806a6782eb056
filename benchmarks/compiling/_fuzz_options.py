"""Options of models for the fuzz: scikit-learn's from its own constraints, so that a new class needs no entry here."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["draw_options"]

# They change no prediction, or only how long a fit takes.
_SKIPPED = frozenset(
    {
        "n_jobs",
        "verbose",
        "random_state",
        "copy",
        "copy_X",
        "copy_x",
        "warm_start",
        "cache_size",
        "memory",
        "tol",
        "eps",
    }
    | {
        "monotonic_cst",
        "error_score",
        "return_train_score",
        "n_iter_no_change",
        "validation_fraction",
        "output_distribution",
    }
    | {
        "verbose_feature_names_out",
        "max_fun",
        "max_no_improvement",
        "batch_size",
        "pre_dispatch",
        "refit",
        "compute_score",
    }
    | {
        "save_standard_errors",
        "store_cv_results",
        "cv",
        "n_init",
        "early_stopping",
        "input",
        "decode_error",
        "encoding",
    }
)
_CHANGED = 0.35

# By name: an option means the same wherever it comes, or nearly.
_NUMBERS: dict[str, tuple[Any, ...]] = {
    "C": (0.01, 1.0, 100.0),
    "alpha": (1e-4, 0.1, 1.0, 10.0),
    "coef0": (0.0, 0.5, 1.0),
    "degree": (1, 2, 3),
    "encoded_missing_value": (-2, 77),
    "fill_value": (0, -1.5, 1e6),
    "gamma": (0.05, 0.5, 2.0),
    "k": (1, 2, "all"),
    "learning_rate": (0.05, 0.3, 1.0),
    "max_categories": (2, 4, None),
    "max_depth": (1, 2, 3, 6, 12, None),
    "max_features": (0.5, 1.0, "sqrt", None),
    "max_leaf_nodes": (2, 5, 12, None),
    "max_samples": (0.5, 1.0, None),
    "min_frequency": (1, 3, 0.1),
    "min_impurity_decrease": (0.0, 0.01),
    "min_samples_leaf": (1, 3, 10),
    "min_samples_split": (2, 8),
    "n_bins": (2, 3, 7),
    "n_clusters": (2, 3, 5),
    "n_components": (1, 2, 3),
    "n_features": (8, 64, 2**10),
    "n_features_to_select": (1, 2, 0.5),
    "n_knots": (3, 5),
    "n_neighbors": (1, 2, 5, 9),
    "n_quantiles": (5, 30),
    "nu": (0.1, 0.3, 0.5),
    "p": (1, 2, 3),
    "percentile": (40, 90),
    "power": (0, 1, 1.5, 2),
    "radius": (1.0, 3.0, 100.0),
    "threshold": (0.0, 0.1, 0.5),
    "threshold_low": (0.1,),
    "tau": (0.1, 1.0),
    "unknown_value": (-1, -5),
}
# Always drawn: the default takes too long, or cannot be fitted to a small table.
_GIVEN: dict[str, dict[str, tuple[Any, ...]]] = {
    "": {"n_estimators": (1, 2, 5, 11)},
    "AdditiveChi2Sampler": {"sample_steps": (1, 2, 3)},
    "BisectingKMeans": {"n_clusters": (2, 3, 5)},
    "FeatureHasher": {"n_features": (8, 64)},
    "HashingVectorizer": {"n_features": (16, 256)},
    "HistGradientBoostingClassifier": {"max_iter": (1, 4, 15), "max_bins": (5, 63, 255)},
    "HistGradientBoostingRegressor": {"max_iter": (1, 4, 15), "max_bins": (5, 63, 255)},
    "IterativeImputer": {"max_iter": (1, 3)},
    "KMeans": {"n_clusters": (2, 3, 5)},
    "MLPClassifier": {"hidden_layer_sizes": ((), (5,), (6, 4)), "max_iter": (20,)},
    "MLPRegressor": {"hidden_layer_sizes": ((), (5,), (6, 4)), "max_iter": (20,)},
    "MiniBatchKMeans": {"n_clusters": (2, 3, 5)},
    "Nystroem": {"n_components": (3, 10)},
    "PolynomialFeatures": {"degree": (1, 2, 3, (0, 2), (2, 2))},
    # Without a limit libsvm may go on for hours, and nothing interrupts it.
    "NuSVC": {"max_iter": (2000,)},
    "NuSVR": {"max_iter": (2000,)},
    "OneClassSVM": {"max_iter": (2000,)},
    "SVC": {"max_iter": (2000,)},
    "SVR": {"max_iter": (2000,)},
    "QuantileTransformer": {"n_quantiles": (5, 30), "output_distribution": ("uniform", "normal")},
    "RBFSampler": {"n_components": (3, 10)},
    "SelectKBest": {"k": (1, 2, "all")},
    "SkewedChi2Sampler": {"n_components": (3, 10), "skewedness": (50.0,)},
    "GaussianRandomProjection": {"n_components": (2, 4)},
    "SparseRandomProjection": {"n_components": (2, 4)},
    "PolynomialCountSketch": {"n_components": (4, 16)},
    "LocalOutlierFactor": {"novelty": (True,)},
    "TunedThresholdClassifierCV": {"cv": (2,), "thresholds": (5,)},
    "CalibratedClassifierCV": {"cv": (2, 3)},
    "StackingClassifier": {"cv": (2, 3)},
    "StackingRegressor": {"cv": (2, 3)},
    "OneHotEncoder": {"sparse_output": (False, True)},
    "RFECV": {"cv": (2,)},
    "SequentialFeatureSelector": {"cv": (2,)},
    "LGBM": {
        "boosting_type": ("gbdt", "gbdt", "dart", "rf"),
        "linear_tree": (False, False, False, True),
        "max_bin": (7, 63, 255),
        "max_depth": (-1, 1, 3),
        "min_child_samples": (1, 5, 20),
        "num_leaves": (2, 4, 15, 31),
        "use_missing": (True, True, False),
        "verbose": (-1,),
        "zero_as_missing": (False, False, True),
    },
    "LGBMClassifier": {"objective": (None, None, "binary", "cross_entropy", "multiclassova"), "sigmoid": (1.0, 0.7)},
    "LGBMRegressor": {
        "objective": ("regression", "regression_l1", "huber", "fair", "poisson", "quantile", "gamma", "tweedie"),
        "reg_sqrt": (False, True),
    },
    "XGB": {
        "base_score": (None, None, 0.3),
        "booster": ("gbtree", "gbtree", "gbtree", "dart", "gblinear"),
        "grow_policy": ("depthwise", "lossguide"),
        "max_bin": (8, 256),
        "max_depth": (1, 3, 6),
        "missing": (math.nan, math.nan, 0.0, -1.0),
        "multi_strategy": (None, None, "multi_output_tree"),
        "num_parallel_tree": (None, None, 3),
        "tree_method": ("hist", "exact", "approx"),
        "verbosity": (0,),
    },
    "XGBClassifier": {"objective": (None, None, "multi:softmax", "binary:hinge", "binary:logitraw")},
    "XGBRegressor": {
        "objective": (
            *("reg:squarederror", "reg:logistic", "reg:pseudohubererror", "count:poisson", "reg:gamma"),
            *("reg:tweedie", "reg:absoluteerror", "reg:squaredlogerror", "reg:quantileerror"),
        ),
        "quantile_alpha": (0.3,),
    },
    "CatBoost": {
        "allow_writing_files": (False,),
        "border_count": (3, 32, 254),
        "depth": (1, 3, 6),
        "grow_policy": ("SymmetricTree", "SymmetricTree", "Depthwise", "Lossguide"),
        "nan_mode": ("Min", "Max"),
        "silent": (True,),
        "thread_count": (1,),
    },
    "CatBoostClassifier": {"loss_function": (None, None, "Logloss", "MultiClass", "MultiClassOneVsAll")},
    "CatBoostRegressor": {
        "loss_function": (
            "RMSE",
            "MAE",
            "Poisson",
            "Quantile:alpha=0.3",
            "RMSEWithUncertainty",
            "Tweedie:variance_power=1.5",
        )
    },
}


def draw_options(kind: type, random: np.random.Generator) -> dict[str, Any]:
    """Draw options for a class: most stay as they are.

    Whether they go together, the library says when it is fitted.
    """
    name = kind.__name__
    wanted = inspect.signature(kind.__init__).parameters
    given = dict(_GIVEN[""])
    for start in (*(family for family in ("LGBM", "XGB", "CatBoost") if name.startswith(family)), name):
        given |= _GIVEN.get(start, {})
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in wanted.values())
    options = {option: _one(choices, random) for option, choices in given.items() if option in wanted or open_ended}
    if name.startswith(("LGBM", "XGB")):
        options["n_jobs"] = 1
    if options.get("boosting_type") == "rf":
        options |= {"subsample": 0.7, "subsample_freq": 1}
    constraints = getattr(kind, "_parameter_constraints", {})
    for option, parameter in wanted.items():
        if option in _SKIPPED or option in options or parameter.default is parameter.empty:
            continue
        if option in constraints and random.random() < _CHANGED:
            choices = _choices(option, constraints[option], parameter.default)
            if choices:
                options[option] = _one(choices, random)
    if "random_state" in wanted or open_ended:
        options["random_state"] = int(random.integers(1000))
    return {option: value for option, value in options.items() if not (value is None and open_ended)}


def _one(choices: tuple[Any, ...] | list[Any], random: np.random.Generator) -> Any:
    return choices[int(random.integers(len(choices)))]


def _choices(option: str, constraints: Any, default: Any) -> list[Any]:
    """What an option may be, as its library checks it."""
    if not isinstance(constraints, list):
        return []
    found: list[Any] = [default]
    for constraint in constraints:
        kind = type(constraint).__name__
        if constraint == "boolean":
            found += [False, True]
        elif constraint is None:
            found.append(None)
        elif kind in {"StrOptions", "Options"} and all(isinstance(one, str) for one in constraint.options):
            deprecated = getattr(constraint, "deprecated", set())
            found += sorted(set(constraint.options) - set(deprecated or ()))
        elif kind == "Interval":
            if option in _NUMBERS:
                found += _NUMBERS[option]
            elif isinstance(default, float) and math.isfinite(default):
                found += [default / 2, default * 2]
    return found
