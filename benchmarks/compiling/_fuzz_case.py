"""One pipeline of the fuzz: drawn from its seed, fitted, compiled, compared."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import FeatureUnion, Pipeline

from benchmarks.compiling._fuzz_agreement import HARMLESS, CrashError, Difference, differences, is_float32, pieces
from benchmarks.compiling._fuzz_onnx import OnnxView, to_onnx
from benchmarks.compiling._fuzz_pipelines import Draw, draw_pipeline, with_imputer
from benchmarks.compiling._fuzz_rounding import ROUNDING, operators_of, rounded_otherwise
from benchmarks.compiling._fuzz_tables import Table, draw_table, edges, height, mutated, take
from optimizer.compiling import UnsupportedOperatorError
from optimizer.errors import CerebroError
from vista_spark.compiling import CompiledPipeline, compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Verdict", "run_case"]

_ATTEMPTS, _SAME = 8, 2
_SECONDS = 60
_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform", "apply")


@dataclass
class Verdict:
    """What came of a case.

    Parameters
    ----------
    seed, case : int
    kind : str
        ``"equal"``, ``"refused"``, ``"wrong"``, ``"not fitted"`` (the library would not fit what was drawn), ``"given
        up"``.
    model, focus : str
        What was drawn, and the class that it was drawn around.
    text : str
        Why it was refused, or the first answer that is wrong.
    operators : list of str
        Of the program.
    counts : Counter of str
        Rows that were compared, refused and tossed up.
    alone : Counter of str
        Why ours refused rows that the library takes.
    wrong : list of str
        Answers that are wrong, with their rows.
    """

    seed: int
    case: int
    kind: str = "not fitted"
    model: str = ""
    focus: str = ""
    text: str = ""
    operators: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class _LateError(BaseException):
    """A pipeline that takes too long: no handler of errors is to take it for one of the library's."""


@contextlib.contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run_case(seed: int, case: int, seconds: int = _SECONDS) -> Verdict:
    """Draw, fit, compile and compare what a seed and a number say."""
    verdict = Verdict(seed, case)
    with warnings.catch_warnings(), _limited(seconds), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fitted = _fitted(verdict)
            if fitted is not None:
                _judge(*fitted, verdict)
        except _LateError:
            verdict.kind = "given up"
    return verdict


def _fitted(verdict: Verdict) -> tuple[Draw, Table] | None:
    """The first draw of a case that the library fits."""
    for attempt in range(_ATTEMPTS):
        random = np.random.default_rng([verdict.seed, verdict.case, attempt])
        # Another table for the same pipeline, before another pipeline.
        draw = draw_pipeline(np.random.default_rng([verdict.seed, verdict.case]) if attempt < _SAME else random)
        missing = random.random() < 0.2
        outputs = 2 if random.random() < 0.06 else 1
        plain = attempt % 2 == 1 or random.random() < 0.2
        table = draw_table(random, draw.table, draw.task, missing=missing, outputs=outputs, plain=plain)
        verdict.model, verdict.focus = f"{draw.form}: {_shown(draw.model)}", draw.focus
        for model in (draw.model, *([with_imputer(draw.model)] if missing and draw.table == "numbers" else [])):
            try:
                return replace(draw, model=fit(model, table)), table
            except Exception as error:  # noqa: BLE001 - whatever the library says
                verdict.text = f"{type(error).__name__}: {error}"[:200]
    return None


def fit(model: Any, table: Table) -> Any:
    """Fit a copy of a model."""
    with _silence():
        fitted = clone(model).fit(table.rows, table.target)
    if not _works(fitted, table):
        raise ValueError("it is fitted, and answers no row of its own table")
    return fitted


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        yield


def _judge(draw: Draw, table: Table, verdict: Verdict) -> None:
    verdict.text = ""
    try:
        model, compiled = compiled_of(draw, table)
    except UnsupportedOperatorError as refusal:
        verdict.kind, verdict.text = "refused", str(refusal)
        return
    except Exception as error:  # noqa: BLE001 - that is what is wrong
        verdict.kind, verdict.text = "wrong", f"compile_pipeline: {type(error).__name__}: {error}"[:400]
        return
    verdict.operators = sorted(operators_of(compiled))
    verdict.counts.update(f"no {name}" for name in _METHODS if _has(model, name) and name not in compiled.outputs)
    for name, rows in tables_of([verdict.seed, verdict.case, 99], model, table):
        verdict.counts["rows"] += height(rows)
        for found in compared(model, compiled, rows, name):
            verdict.counts[found.kind] += 1
            if found.kind not in HARMLESS:
                row = take(rows, [found.row])
                shown = row.to_dict("records") if hasattr(row, "iloc") else f"{row.tolist()} of {row.dtype}"
                verdict.wrong.append(f"{name}, row {found.row}: {found.text} ({found.kind})\n    {str(shown)[:400]}")
            if found.kind.startswith("refused"):
                verdict.alone[re.sub(r".* has |\d+", "", found.text)[:100]] += 1
    verdict.kind = "wrong" if verdict.wrong else "equal"
    if verdict.wrong:
        verdict.text = f"{len(verdict.wrong)} answers; {verdict.wrong[0].splitlines()[0]}"


def compiled_of(draw: Draw, table: Table) -> tuple[Any, CompiledPipeline]:
    """Compile; a model whose columns it does not say gets an example."""
    if draw.form == "onnx" and (graph := _graph(draw.model, table)) is not None:
        compiled = compile_pipeline(graph)
        return OnnxView(graph, compiled.outputs), compiled
    model = booster_of(draw.model) if draw.form == "booster" else draw.model
    compiled = compile_pipeline(model, example=None if _says_width(model) else _example(table))
    return View(model), compiled


def _graph(model: Any, table: Table) -> Any:
    """The model as ONNX, if its converter and onnxruntime take it."""
    with contextlib.suppress(Exception), _silence():
        graph = to_onnx(model, table.rows.shape[1])
        outputs = [one.name for one in graph.graph.output]
        getattr(OnnxView(graph, outputs), outputs[0])(table.rows)
        return graph
    return None


def _works(model: Any, table: Table) -> bool:
    """Whether any method of a fitted model gives an answer: some fit, and then fail on what they were fitted on."""
    for name in _METHODS:
        with contextlib.suppress(Exception):
            getattr(model, name)(table.rows)
            return True
    return False


def _says_width(model: Any) -> bool:
    with contextlib.suppress(Exception):
        return getattr(model, "n_features_in_", None) is not None or not isinstance(model, (Pipeline, FeatureUnion))
    return True


def _example(table: Table) -> Any:
    rows = take(table.rows, np.arange(2))
    return rows[:, None] if rows.ndim == 1 else rows


def booster_of(model: Any) -> Any:
    """Take the Booster of a fitted estimator; an ensemble of such has none."""
    if hasattr(model, "booster_"):
        return model.booster_
    return model.get_booster() if hasattr(model, "get_booster") else model


class View:
    """A model with the names that a compiled pipeline has for its methods."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._root = type(model).__module__.partition(".")[0]
        self._booster = type(model).__name__ == "Booster"

    def __getattr__(self, name: str) -> Any:
        if self._root == "lightgbm" and name == "apply":
            return lambda rows: np.asarray(self.model.predict(rows, pred_leaf=True)).reshape(len(rows), -1)
        if self._root == "xgboost" and self._booster and name in {"predict", "apply"}:
            return lambda rows: self._of_xgboost(rows, leaves=name == "apply")
        if self._root == "catboost" and name == "apply":
            return self.model.calc_leaf_indexes
        if self._root == "catboost" and name == "predict":
            return lambda rows: _flat_labels(self.model.predict(rows))
        if name in {"decision_function", "transform"} and self._root in {"lightgbm", "xgboost", "catboost"}:
            raise AttributeError(name)
        return getattr(self.model, name)

    def _of_xgboost(self, rows: Any, *, leaves: bool) -> Any:
        import xgboost  # noqa: PLC0415 - only where it is drawn

        return self.model.predict(xgboost.DMatrix(rows, nthread=1, enable_categorical=True), pred_leaf=leaves)


def _flat_labels(answer: Any) -> Any:
    """CatBoost gives classes of more than two as a table of one column."""
    return answer[:, 0] if answer.ndim == 2 and answer.shape[1] == 1 else answer


def _has(model: Any, name: str) -> bool:
    try:
        return hasattr(model, name)
    except Exception:  # noqa: BLE001 - a library's own error for an option that takes the method away
        return False


def compared(model: Any, compiled: CompiledPipeline, rows: Any, name: str) -> list[Difference]:
    """Compare every method that the program has."""
    rounds = bool(operators_of(compiled) & ROUNDING)
    narrow = _is_narrow(model) or is_float32(rows)
    found = []
    for method in compiled.outputs:
        if not _has(model, method):
            found.append(Difference("no such method", 0, f"{method} is compiled, and the library has none"))
            continue
        try:
            found += differences(
                method,
                rows,
                getattr(model, method),
                getattr(compiled, method),
                narrow=narrow,
                rounds=rounds,
                otherwise=lambda method=method: getattr(rounded_otherwise(compiled), method),
            )
            if name == "training":
                none = pieces(getattr(compiled, method)(take(rows, np.arange(0))))
                some = none
                with contextlib.suppress(ValueError, CerebroError):  # a row that is refused is counted above
                    some = pieces(getattr(compiled, method)(take(rows, np.arange(1))))
                if [one.shape[1:] for one in some] != [one.shape[1:] for one in none] or len(none[0]):
                    found.append(Difference("shape", 0, f"{method} of no row: {none[0].shape}"))
        except (CrashError, TypeError, RuntimeError, IndexError) as error:
            found.append(Difference("crash", 0, f"{method}: {type(error).__name__}: {error}"[:300]))
    return found


def _is_narrow(model: Any) -> bool:
    if isinstance(model, OnnxView):
        return True
    text = repr(model.model if isinstance(model, View) else model)
    return "XGB" in text or "CatBoost" in text or "xgboost" in text


def tables_of(seed: list[int], model: Any, table: Table) -> Iterator[tuple[str, Any]]:
    """Tables to compare on: training rows, numbers where answers change, what is to hurt; in both precisions."""
    random = np.random.default_rng(seed)
    training = take(table.rows, np.arange(min(60, height(table.rows))))
    yield "training", training
    yield "one row", take(training, [0])
    if not hasattr(training, "iloc") and training.ndim == 1:
        yield "nasty", mutated(random, training, 40)
        return
    method = next((name for name in ("apply", "predict", "transform") if _has(model, name)), None)
    if method is not None:

        def predict(rows: Any) -> Any:
            answer = getattr(model, method)(rows)
            return np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer).reshape(height(rows), -1)

        with contextlib.suppress(Exception):  # of the library, on rows between those of its fit
            yield "edges", edges(random, table.rows, predict)
    hurt = mutated(random, table.rows, 46)
    yield "nasty", hurt
    if not hasattr(hurt, "iloc"):
        other = np.float64 if hurt.dtype == np.float32 else np.float32
        yield f"nasty, {other.__name__}", hurt.astype(other)
        yield f"training, {other.__name__}", training.astype(other)


def _shown(model: Any) -> str:
    if type(model).__module__.partition(".")[0] == "catboost":
        options = ", ".join(f"{name}={value!r}" for name, value in model.get_params().items())
        return f"{type(model).__name__}({options})"
    # XGBoost names every option.
    return re.sub(r"\w+=None,? ?", "", " ".join(repr(model).split()))
