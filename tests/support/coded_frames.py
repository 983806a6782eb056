"""Streams of numbers in place of pictures: models that look their answers up, and a plain loop that labels them.

A frame is ``1000 * class + variation``; a negative one is corrupt.
"""

from __future__ import annotations

import os
import signal
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
from udfs.specialization._repetition import MOST_REPETITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from optimizer.specialization import Expert
    from udfs.arrow import BatchFunction
    from udfs.specialization import Expertise

    Frame = tuple[float | None, int | None]
    Row = tuple[object, str | None, str | None, float | None, str | None]

__all__ = [
    "CLASSES",
    "CodedFeatures",
    "CodedScores",
    "CodedStage",
    "Pictured",
    "compact_models",
    "label_in_a_loop",
    "learned_parts",
    "picture",
    "policy",
    "repeats_within",
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
    """Oracle: the class of a frame; for a share of the variations, `wrong`, the next class.

    Its process is killed at the frame `fatal` if the file `marker` does not exist yet.
    """

    wrong: float = 0.0
    fatal: int = -1
    marker: str = ""
    batch_size: int = 7
    reads: tuple[str, ...] = ("frame",)
    adds: tuple[pa.Field, ...] = field(default=(pa.field("scores", pa.list_(pa.float64())),))

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        return lambda batch: _arrays(batch, self.adds[0].type, self.answer)

    def answer(self, code: int) -> list[float]:
        if code == self.fatal and not Path(self.marker).exists():
            Path(self.marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
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


@dataclass(frozen=True)
class Pictured:
    """Model of numbers that reads pictures of one colour, as :func:`picture` draws them."""

    function: CodedScores | CodedFeatures
    reads: tuple[str, ...] = ("frame",)

    @property
    def adds(self) -> tuple[pa.Field, ...]:
        return self.function.adds

    @property
    def batch_size(self) -> int:
        return self.function.batch_size

    def open(self, threads: int) -> Callable[[pa.RecordBatch], NewColumns]:
        infer = self.function.open(threads)
        return lambda batch: infer(
            pa.RecordBatch.from_arrays(
                [pa.array([_code(each) for each in batch.column(0).to_pylist()], pa.int64())], names=["frame"]
            )
        )

    def answer(self, code: int) -> list[float]:
        return self.function.answer(code)


def picture(code: int | None) -> dict[str, Any] | None:
    """Draw a frame: the class is the red channel, the variation, below 250, the green one; sizes alternate."""
    if code is None:
        return None
    width, height = (8, 6) if code % 2 else (5, 9)
    place, variation = divmod(max(code, 0), 1000)
    pixels = bytes([0, variation, 20 * place]) * (width * height)
    image = {"origin": "", "height": height, "width": width, "nChannels": 3, "mode": 16}
    return image | {"data": pixels if code >= 0 else pixels[1:]}


def _code(image: dict[str, Any] | None) -> int | None:
    if image is None:
        return None
    if len(image["data"]) != 3 * image["height"] * image["width"]:
        return -1
    return 1000 * (image["data"][2] // 20) + image["data"][1]


def repeats_within(threshold: float) -> Callable[[int, int], bool]:
    """Return a comparison of the mean squared difference of the channels of two pictures."""

    def repeats(reference: int, code: int) -> bool:
        (red, green), (other_red, other_green) = divmod(reference, 1000), divmod(code, 1000)
        return ((20 * (red - other_red)) ** 2 + (green - other_green) ** 2) / 3 <= threshold

    return repeats


@dataclass
class CodedStage:
    """The part of a featurizer that a specialised model uses."""

    function: CodedFeatures | Pictured
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
    spec: SpecializationSpec,
    frames: Iterable[Frame],
    stream: str = "",
    *,
    fails: bool = False,
    repeats: Callable[[int, int], bool] = lambda reference, code: False,
) -> list[Row]:
    """Label frames, each a time and a number, in the order of their arrival: models are called with a single frame.

    With `fails`, no expert can be trained. A row has the label, the model, the phase, the confidence and the reason.
    `repeats` compares the last frame that repeats no other with the next one.
    """
    models = _SingleModels(spec, stream, fails)
    reference: tuple[int, Row] | None = None
    repetitions = 0
    last, simultaneous, rows = -np.inf, {}, []
    for time, code in frames:
        if time is None or np.isnan(time):
            rows.append((None, None, None, None, "no time"))
        elif time < last:
            place, confidence, reason = models.ask_oracle(code)
            late = (spec.labels[place], "oracle", "late", confidence, None)
            rows.append((None, None, None, None, reason) if reason else late)
        else:
            if time > last:
                last, simultaneous = time, {}
            if code not in simultaneous:
                is_readable = code is not None and code >= 0
                is_fresh = repetitions < MOST_REPETITIONS
                if is_readable and reference is not None and is_fresh and repeats(reference[0], code):
                    repetitions += 1
                    label, source, _, confidence, _ = reference[1]
                    simultaneous[code] = (label, source, "repeat", confidence, None)
                else:
                    repetitions, simultaneous[code] = 0, models.label(code)
                    reference = (code, simultaneous[code]) if is_readable else None
            rows.append(simultaneous[code])
    return rows


class _SingleModels:
    def __init__(self, spec: SpecializationSpec, stream: str, fails: bool) -> None:
        self._spec, self._fails = spec, fails
        self._algorithm = WindowedGreedy(spec.policy, stream=stream)
        self._parts = parts_from_bytes(Path(spec.parts).read_bytes())
        self._heads: dict[str, Expertise] = {}

    def ask_oracle(self, code: int | None) -> tuple[int, float, str | None]:
        new = _run_single(self._spec.oracle.function, code)
        scores = new.columns[0].to_pylist()[0]
        return (OTHER, 0.0, new.reasons[0]) if scores is None else (int(np.argmax(scores)), max(scores), None)

    def label(self, code: int | None) -> Row:
        if self._fails and self._algorithm.need().expert is not None:
            self._algorithm.fail_training()
        need = self._algorithm.need()
        guess = answer = None
        if need.expert is not None:
            guess = self._classify(need.expert, code)
            if guess[2]:
                return None, None, None, None, guess[2]
        if guess is None or need.oracle or guess[0] == OTHER:
            answer = self.ask_oracle(code)
            if answer[2]:
                return None, None, None, None, answer[2]
        decision = self._algorithm.observe(answer and answer[0], guess and guess[0])
        source, confidence = ("oracle", answer[1]) if answer else (need.expert.name, guess[1])  # type: ignore[union-attr, index]
        return self._spec.labels[decision.label], source, decision.phase, confidence, None

    def _classify(self, expert: Expert, code: int | None) -> tuple[int, float, str | None]:
        compact = self._spec.compacts[expert.compact]
        new = _run_single(self._spec.networks[compact.network], code)
        if new.reasons[0]:
            return OTHER, 0.0, new.reasons[0]
        if expert.name not in self._heads:
            self._heads[expert.name] = self._made(expert, compact)
        answers = self._heads[expert.name].answers(np.array(new.columns[0].to_pylist(), np.float32))
        return int(answers.labels[0]), float(answers.confidence[0]), None

    def _made(self, expert: Expert, compact: CompactModel) -> Expertise:
        if not self._spec.trains:
            head = self._parts.heads[compact.network]
            return ReweightedExpert(head, expert.dominant, compact.skew, expert.frequencies)
        rows = self._parts.rows[compact.network]
        return train_expert(rows.features, rows.labels, expert.dominant, compact.skew)


def _run_single(function: BatchFunction, code: int | None) -> NewColumns:
    return function.open(1)(pa.RecordBatch.from_arrays([pa.array([code], pa.int64())], names=["frame"]))
