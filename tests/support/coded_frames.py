"""Streams of numbers in place of pictures: models that look their answers up, and a plain loop that labels them.

A frame is ``1000 * class + variation``; a negative one is corrupt.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from optimizer.specialization import OTHER, CompactProfile, Confusion, ConfusionCurve, Policy, WindowedGreedy
from udfs.arrow import NewColumns
from udfs.cascades import ClassScores, Member
from udfs.specialization import (
    CompactModel,
    LabelColumns,
    LearnedParts,
    ReweightedExpert,
    SpecializationSpec,
    TrainingRows,
    parts_from_bytes,
    parts_to_bytes,
    train_expert,
    train_linear,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = [
    "CLASSES",
    "CodedFeatures",
    "CodedScores",
    "CodedStage",
    "compact_models",
    "label_in_a_loop",
    "learned_parts",
    "policy",
    "spec",
]

CLASSES = 12
_WIDTH = 16
_CURVE = ConfusionCurve((1, 5), (Confusion(0.99, 0.01, 0.98), Confusion(0.97, 0.02, 0.97)))


def _arrays(batch: pa.RecordBatch, kind: pa.DataType, answer: Callable[[int], Any]) -> NewColumns:
    codes = batch.column(0).to_pylist()
    reasons = ["null" if code is None else "corrupt" if code < 0 else None for code in codes]
    rows = [None if reason else answer(int(code)) for code, reason in zip(codes, reasons, strict=True)]
    return NewColumns([pa.array(rows, kind)], reasons)


@dataclass(frozen=True)
class CodedScores:
    """Oracle: the class of a frame; for a share of the variations, `wrong`, the next class."""

    wrong: float = 0.0
    batch_size: int = 7
    reads: tuple[str, ...] = ("frame",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("scores", pa.list_(pa.float64())),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        return lambda batch: _arrays(batch, self.adds[0].type, self.answer)

    def answer(self, code: int) -> list[float]:
        place, variation = divmod(code, 1000)
        place = (place + (variation < 1000 * self.wrong)) % CLASSES
        return [0.78 if each == place else 0.02 for each in range(CLASSES)]


@dataclass(frozen=True)
class CodedFeatures:
    """Compact model: a direction per class, and noise that depends on the variation; `signal` 0 is noise alone."""

    signal: float = 1.0
    batch_size: int = 5
    reads: tuple[str, ...] = ("frame",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("features", pa.list_(pa.float32())),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        return lambda batch: _arrays(batch, self.adds[0].type, self.answer)

    def answer(self, code: int) -> list[float]:
        direction = np.random.default_rng(code // 1000).normal(size=_WIDTH)
        noise = np.random.default_rng(code).normal(size=_WIDTH)
        return (self.signal * direction + 0.3 * noise).astype(np.float32).tolist()


@dataclass
class CodedStage:
    """The part of a featurizer that a specialised model uses."""

    function: CodedFeatures
    column: str = "frame"

    def copy(self) -> CodedStage:
        return replace(self)

    def setInputCol(self, value: str) -> CodedStage:
        self.column = value
        return self

    def class_scores(self, dataset: Any) -> ClassScores:
        return ClassScores(self.function, {"frame": self.column})


def compact_models(count: int) -> tuple[CompactModel, ...]:
    """Name the compact models, a network each."""
    return tuple(CompactModel(f"small {place}", place, 0.6) for place in range(count))


def learned_parts(*functions: CodedFeatures, rows: int = 10, trains: bool = True) -> bytes:
    """Compute the features of some frames of each class, and train a classifier of them."""
    codes = [1000 * place + 990 - each for place in range(CLASSES) for each in range(rows)]
    labels = np.array([code // 1000 for code in codes], np.int64)
    parts = [TrainingRows(np.array([each.answer(code) for code in codes], np.float32), labels) for each in functions]
    heads = tuple(train_linear(part.features, part.labels, CLASSES) for part in parts)
    return parts_to_bytes(LearnedParts(heads, tuple(parts) if trains else ()))


def policy(compacts: int = 1, **settings: Any) -> Policy:
    """Make a policy under which specialization pays soon."""
    profiles = [
        CompactProfile(f"small {place}", 0.01 * (place + 1), _CURVE, training_seconds=0.4) for place in range(compacts)
    ]
    defaults = {"window": 10, "epsilon": 0.2, "training_frames": 5, "seed": 3}
    return Policy(classes=CLASSES, accuracy=0.98, seconds=0.1, compacts=profiles, **(defaults | settings))


def spec(
    path: Any,
    *functions: CodedFeatures,
    oracle: CodedScores | None = None,
    timeout: float = 60.0,
    batch_size: int = 8,
    trains: bool = True,
    **settings: Any,
) -> SpecializationSpec:
    """Write the training rows to a file, and return the models and settings."""
    functions = functions or (CodedFeatures(),)
    path.write_bytes(learned_parts(*functions, trains=trains))
    return SpecializationSpec(
        oracle=Member("oracle", oracle or CodedScores(), "scores"),
        networks=functions,
        compacts=compact_models(len(functions)),
        parts=str(path),
        policy=policy(len(functions), **settings),
        labels=tuple(f"c{place}" for place in range(CLASSES)),
        label_type=pa.string(),
        columns=LabelColumns("label", "model", "phase", "confidence", "error"),
        trains=trains,
        training_timeout=timeout,
        batch_size=batch_size,
    )


def label_in_a_loop(
    spec: SpecializationSpec, frames: Iterable[tuple[float | None, int | None]], stream: str = "", *, fails: bool = False
) -> list[tuple[str | None, str | None, str | None, float | None, str | None]]:
    """Label frames, (time, code), one after the other: each model is called with a single frame.

    The result is in the order of the frames, which arrive in any order of their times, each for itself.
    """
    oracle, algorithm, heads = spec.oracle.function, WindowedGreedy(spec.policy, stream=stream), {}
    parts = parts_from_bytes(Path(spec.parts).read_bytes())
    last, simultaneous, results = -np.inf, {}, []

    def ask(code: int | None) -> tuple[int, float, str | None]:
        new = oracle.open(1)(pa.RecordBatch.from_arrays([pa.array([code], pa.int64())], names=["frame"]))
        scores = new.columns[0].to_pylist()[0]
        return (OTHER, 0.0, new.reasons[0]) if scores is None else (int(np.argmax(scores)), max(scores), None)

    def classify(code: int | None) -> tuple[int, float, str | None]:
        need = algorithm.need()
        expert = need.expert
        assert expert is not None
        compact = spec.compacts[expert.compact]
        if expert.name not in heads and spec.trains:
            rows = parts.rows[compact.network]
            heads[expert.name] = train_expert(rows.features, rows.labels, expert.dominant, compact.skew)
        elif expert.name not in heads:
            heads[expert.name] = ReweightedExpert(parts.heads[compact.network], expert.dominant, compact.skew)
        batch = pa.RecordBatch.from_arrays([pa.array([code], pa.int64())], names=["frame"])
        new = spec.networks[compact.network].open(1)(batch)
        if new.reasons[0]:
            return OTHER, 0.0, new.reasons[0]
        answers = heads[expert.name].answers(np.array(new.columns[0].to_pylist(), np.float32))
        return int(answers.labels[0]), float(answers.confidence[0]), None

    for time, code in frames:
        if time is None or np.isnan(time):
            results.append((None, None, None, None, "no time"))
            continue
        if time < last:
            place, confidence, reason = ask(code)
            results.append(
                (None, None, None, None, reason)
                if reason
                else (spec.labels[place], "oracle", "late", confidence, None)
            )
            continue
        if time == last and code in simultaneous:
            results.append(simultaneous[code])
            continue
        if time > last:
            last, simultaneous = time, {}
        if fails and algorithm.need().expert is not None:
            algorithm.fail_training()
        need = algorithm.need()
        guess = classify(code) if need.expert is not None else (None, None, None)
        answer = ask(code) if need.oracle or guess[0] in (None, OTHER) else (None, None, None)
        reason = guess[2] or answer[2]
        if reason:
            row = (None, None, None, None, reason)
        else:
            name = need.expert.name if need.expert is not None else None
            decision = algorithm.observe(answer[0], guess[0])
            by_oracle = answer[0] is not None
            row = (
                spec.labels[decision.label],
                "oracle" if by_oracle else name,
                decision.phase,
                answer[1] if by_oracle else guess[1],
                None,
            )
        simultaneous[code] = row
        results.append(row)
    return results
