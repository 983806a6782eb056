"""Dummy models of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.compiling import Constant, Output
from vista_spark.compiling._refusals import refuse
from vista_spark.compiling._registry import parser
from vista_spark.compiling.sklearn._members import with_logs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from optimizer.compiling import Builder


@parser("sklearn.DummyRegressor")
def lower_dummy_regressor(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower a constant a column."""
    constant = np.asarray(model.constant_)
    node = build.add(Constant(np.broadcast_to(constant.reshape(1, -1), (1, model.n_outputs_))[0].copy()), table)
    return {"predict": Output(node, flat=model.n_outputs_ == 1)}


@parser("sklearn.DummyClassifier")
def lower_dummy_classifier(model: Any, build: Builder, table: str) -> Mapping[str, Output]:
    """Lower the strategies that draw no random numbers."""
    strategy = model._strategy  # what the fit made of `strategy`
    if strategy in {"stratified", "uniform"}:
        raise refuse(model, f"strategy={strategy!r}", "it draws random numbers")
    if model.sparse_output_:
        raise refuse(model, "a sparse target")
    single = model.n_outputs_ == 1
    classes, priors = ([model.classes_], [model.class_prior_]) if single else (model.classes_, model.class_prior_)
    # One constant of texts may be an array of one row: the library flattens it too.
    constants = np.atleast_1d(np.asarray(model.constant, dtype=object)).reshape(-1) if strategy == "constant" else None
    best, shares = [], []
    for place, (names, prior) in enumerate(zip(classes, priors, strict=True)):
        chosen = int(np.argmax(prior)) if constants is None else int(np.flatnonzero(names == constants[place])[0])
        best.append(chosen)
        certain = np.zeros(len(names))
        certain[chosen] = 1.0
        shares.append(np.asarray(prior, np.float64) if strategy == "prior" else certain)
    node = build.add(Constant(np.array(best, np.int64)), table)
    labels = tuple(np.asarray(names) for names in classes)
    split = None if single else tuple(len(share) for share in shares)
    return with_logs(
        build,
        {
            "predict": Output(node, flat=True, labels=labels[0]) if single else Output(node, labels=labels),
            "predict_proba": Output(build.add(Constant(np.concatenate(shares)), table), split=split),
        },
    )
