"""One pipeline of the fuzz: drawn from its seed, fitted, compiled, compared; shrunk where it is wrong."""

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
from _fuzz_agreement import CANCELLING, HARMLESS, ROUNDING, CrashError, Difference, differences
from _fuzz_pipelines import Draw, draw_pipeline, with_imputer
from _fuzz_tables import Table, draw_table, edges, height, mutated, take
from sklearn.base import clone
from sklearn.pipeline import FeatureUnion, Pipeline

from optimizer.compiling import Program, UnsupportedOperatorError
from vista_spark.compiling import CompiledPipeline, compile_pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Verdict", "run_seed", "shrunk"]

_ATTEMPTS = 8
_SECONDS = 60
_ALIKE = 6
_FAR = 1e7
_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function", "score_samples", "transform", "apply")


@dataclass
class Verdict:
    """What came of a seed.

    Parameters
    ----------
    seed : int
    kind : str
        ``"equal"``, ``"refused"``, ``"wrong"``, ``"unfitted"`` (the library would not fit what was drawn), ``"late"``.
    model : str
        What was drawn.
    text : str
        Why it was refused, or what is wrong.
    operators : list of str
        Of the program.
    counts : dict of str to int
        Rows that were compared, refused and tossed up; methods that are not compiled.
    alone : Counter of str
        Why ours refused rows that the library takes.
    """

    seed: int
    kind: str
    model: str = ""
    text: str = ""
    focus: str = ""
    operators: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    alone: Counter[str] = field(default_factory=Counter)


class _LateError(Exception):
    """A pipeline that takes too long."""


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


def run_seed(seed: int, seconds: int = _SECONDS) -> Verdict:
    """Draw, fit, compile and compare what a seed says."""
    verdict = Verdict(seed, "unfitted")
    with warnings.catch_warnings(), _limited(seconds), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            fitted = _fitted(seed, verdict)
            if fitted is not None:
                _judge(*fitted, verdict)
        except _LateError:
            verdict.kind = "late"
    return verdict


def _fitted(seed: int, verdict: Verdict) -> tuple[Draw, Table] | None:
    """The first draw of a seed that the library fits."""
    for attempt in range(_ATTEMPTS):
        random = np.random.default_rng([seed, attempt])
        draw = draw_pipeline(np.random.default_rng([seed, 0]) if attempt < 2 else random)
        missing = random.random() < 0.2
        outputs = 2 if attempt > 5 or random.random() < 0.06 else 1
        plain = attempt % 2 == 1 or random.random() < 0.2
        table = draw_table(random, draw.table, draw.task, missing=missing, outputs=outputs, plain=plain)
        verdict.model, verdict.focus = _shown(draw.model), draw.focus
        for model in (draw.model, *([with_imputer(draw.model)] if missing and draw.table == "numbers" else [])):
            try:
                return replace(draw, model=fit(model, table)), table
            except _LateError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the library says
                verdict.text = f"{type(error).__name__}: {error}"[:200]
    return None


def fit(model: Any, table: Table) -> Any:
    """Fit a copy of a model."""
    with (
        Path(os.devnull).open("w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        return clone(model).fit(table.rows, table.target)


def _judge(draw: Draw, table: Table, verdict: Verdict) -> None:
    verdict.model, verdict.text = _shown(draw.model), ""
    try:
        model, compiled = compiled_of(draw, table)
    except UnsupportedOperatorError as refusal:
        verdict.kind, verdict.text = "refused", str(refusal)
        return
    except _LateError:
        raise
    except Exception as error:  # noqa: BLE001 - that is what is wrong
        if not _works(draw.model, table):
            return
        verdict.kind, verdict.text = "wrong", f"compile_pipeline: {type(error).__name__}: {error}"[:400]
        return
    verdict.operators = sorted(_operators(compiled))
    missing = [name for name in _METHODS if _has(model, name) and name not in compiled.outputs]
    verdict.counts = {f"no {name}": 1 for name in missing}
    counts: Counter[str] = Counter()
    wrong = []
    for name, rows in tables_of(verdict.seed, model, table):
        for found in compared(model, compiled, rows, name):
            counts[found.kind] += 1
            if found.kind not in HARMLESS:
                wrong.append(f"{name}, row {found.row}: {found.text} ({found.kind})")
            elif found.kind == "refused by ours alone":
                verdict.alone[found.text.partition(": ")[2]] += 1
        counts["rows"] += height(rows)
    verdict.counts |= counts
    verdict.kind = "wrong" if wrong else "equal"
    if wrong:
        verdict.text = f"{len(wrong)} answers; {wrong[0]}"


def compiled_of(draw: Draw, table: Table) -> tuple[Any, CompiledPipeline]:
    """Compile; a model whose columns it does not say gets an example."""
    model = booster_of(draw.model) if draw.booster else draw.model
    compiled = compile_pipeline(model, example=None if _says_width(model) else _example(table))
    return View(model), compiled


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
    """Take the Booster of a fitted estimator."""
    return model.booster_ if hasattr(model, "booster_") else model.get_booster()


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

        return self.model.predict(xgboost.DMatrix(rows, nthread=1), pred_leaf=leaves)


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
    rounds = bool(_operators(compiled) & ROUNDING)
    far = _FAR * _ordinary(rows) if _operators(compiled) & CANCELLING else np.inf
    narrow = _is_narrow(model) or getattr(rows, "dtype", None) == np.float32
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
                far=far,
                alike=lambda method=method: [getattr(other, method) for other in _alike(compiled, narrow=narrow)],
            )
            none = take(rows, np.arange(0))
            if name == "training":
                getattr(compiled, method)(none)
        except (CrashError, TypeError, RuntimeError, IndexError) as error:
            found.append(Difference("crash", 0, f"{method}: {type(error).__name__}: {error}"[:300]))
    return found


def _operators(compiled: CompiledPipeline) -> set[str]:
    return {type(node.operator).__name__ for node in compiled.program.nodes}


def _ordinary(rows: Any) -> float:
    """The size of a table's numbers, whatever is to hurt among them."""
    numbers = rows.select_dtypes("number").to_numpy() if hasattr(rows, "iloc") else rows
    if numbers.dtype.kind != "f" or not np.isfinite(numbers).any():
        return 1.0
    return float(max(np.median(np.abs(numbers[np.isfinite(numbers)])), 1e-3))


def _alike(compiled: CompiledPipeline, *, narrow: bool) -> list[CompiledPipeline]:
    """Programs whose products have weights that are an ulp off: their answers say what rounding may do."""
    document, arrays = compiled.program.document()
    sums = {node["name"] for node in document["nodes"] if node["operator"] == "Linear"}
    random = np.random.default_rng(0)
    size = np.finfo(np.float32 if narrow else np.float64).eps
    found = []
    for _ in range(_ALIKE if sums else 0):
        moved = {
            name: (array * (1 + size * random.uniform(-1, 1, array.shape))).astype(array.dtype)
            if name.partition("/")[0] in sums and array.dtype.kind == "f"
            else array
            for name, array in arrays.items()
        }
        found.append(CompiledPipeline(Program.of_document(document, moved), tree_strategy=compiled.tree_strategy))
    return found


def _is_narrow(model: Any) -> bool:
    text = repr(model.model if isinstance(model, View) else model)
    return "XGB" in text or "CatBoost" in text or "xgboost" in text


def tables_of(seed: int, model: Any, table: Table) -> Iterator[tuple[str, Any]]:
    """Tables to compare on: training rows, numbers where answers change, what is to hurt; in both precisions."""
    random = np.random.default_rng([seed, 99])
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

        with contextlib.suppress(ValueError, TypeError):
            yield "edges", edges(random, table.rows, predict)
    hurt = mutated(random, table.rows, 46)
    yield "nasty", hurt
    if not hasattr(hurt, "iloc"):
        other = np.float64 if hurt.dtype == np.float32 else np.float32
        yield f"nasty, {other.__name__}", hurt.astype(other)
        yield f"training, {other.__name__}", training.astype(other)


def shrunk(seed: int) -> str:
    """Find the smallest pipeline that is wrong still, and the row that shows it."""
    verdict = Verdict(seed, "unfitted")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        fitted = _fitted(seed, verdict)
        if fitted is None:
            return verdict.text
        draw, table = fitted
        found = _first_wrong(seed, draw, table)
        if found is None:
            return "nothing is wrong"
        smaller = True
        while smaller:
            smaller = False
            for candidate in _simpler(draw.model):
                with contextlib.suppress(Exception):
                    tried = replace(draw, model=fit(candidate, table))
                    again = _first_wrong(seed, tried, table)
                    if again is not None:
                        draw, found, smaller = tried, again, True
                        break
    return f"{_shown(draw.model)}\n{found}"


def _first_wrong(seed: int, draw: Draw, table: Table) -> str | None:
    try:
        model, compiled = compiled_of(draw, table)
    except UnsupportedOperatorError:
        return None
    except Exception as error:  # noqa: BLE001 - that is what is wrong
        return f"compile_pipeline: {type(error).__name__}: {error}"[:400]
    for name, rows in tables_of(seed, model, table):
        for found in compared(model, compiled, rows, name):
            if found.kind not in HARMLESS:
                row = take(rows, [found.row])
                numbers = row.to_dict("records") if hasattr(row, "iloc") else f"{row.tolist()} ({row.dtype})"
                return f"{name}, row {found.row}: {found.text} ({found.kind})\nrow: {numbers}"
    return None


def _simpler(model: Any) -> Iterator[Any]:  # noqa: C901, PLR0912 - a case a kind of model
    """Models that are a step towards something smaller."""
    if isinstance(model, Pipeline):
        yield from (step for _, step in model.steps if hasattr(step, "fit"))
        for place in range(len(model.steps)) if len(model.steps) > 2 else ():
            yield Pipeline([step for own, step in enumerate(model.steps) if own != place])
        for place, (name, step) in enumerate(model.steps):
            for simpler in _simpler(step) if hasattr(step, "get_params") else ():
                yield Pipeline([*model.steps[:place], (name, simpler), *model.steps[place + 1 :]])
        return
    for option in ("estimator", "regressor"):
        inner = model.get_params(deep=False).get(option)
        if hasattr(inner, "fit"):
            yield inner
            yield from (clone(model).set_params(**{option: simpler}) for simpler in _simpler(inner))
    for option in ("estimators", "transformers", "transformer_list"):
        for entry in model.get_params(deep=False).get(option) or ():
            if hasattr(entry[1], "fit"):
                yield entry[1]
    fresh: Callable[[], Any] = type(model)
    with contextlib.suppress(TypeError):
        defaults = fresh().get_params(deep=False)
        for option, value in model.get_params(deep=False).items():
            if option in defaults and repr(defaults[option]) != repr(value) and option not in _KEPT:
                yield clone(model).set_params(**{option: defaults[option]})
    for option, least in (("n_estimators", 1), ("max_iter", 1), ("max_depth", 1)):
        if isinstance(value := model.get_params(deep=False).get(option), int) and value > least:
            yield clone(model).set_params(**{option: least})


_KEPT = frozenset({"random_state", "n_estimators", "n_jobs", "verbose", "silent", "max_iter"})


def _shown(model: Any) -> str:
    if type(model).__module__.partition(".")[0] == "catboost":
        options = ", ".join(f"{name}={value!r}" for name, value in model.get_params().items())
        return f"{type(model).__name__}({options})"
    # XGBoost names every option.
    return re.sub(r"\w+=None,? ?", "", " ".join(repr(model).split()))
