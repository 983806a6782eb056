"""Frames that repeat an earlier one, against a plain loop over pictures of one colour."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from coded_frames import (
    CLASSES,
    CodedFeatures,
    CodedScores,
    Pictured,
    label_in_a_loop,
    picture,
    repeats_within,
    spec,
)

from optimizer.specialization import OTHER, Segment, draw_labels
from udfs.images import ImageError
from udfs.specialization import BlockErrors, OpenModels, StreamLabelling, StreamMemory, StreamProcessor
from udfs.specialization._repetition import BEFORE, MOST_REPETITIONS, find_references
from udfs.video import DifferenceDetector, block_error, thumbnail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from udfs.specialization import SpecializationSpec

Frames = list[tuple[float | None, int | None]]
THRESHOLD = 3.0
"""A difference of 3 in one of three channels."""
PICTURE = pa.struct(
    [
        ("origin", pa.string()),
        *((name, pa.int32()) for name in ("height", "width", "nChannels", "mode")),
        ("data", pa.binary()),
    ]
)


def drifting_codes() -> list[int]:
    """Draw runs of 1 to 8 frames of a class, which become lighter: from the fourth frame they differ from the first."""
    draw = np.random.default_rng(5)
    labels = draw_labels([Segment(2, 0.95, 0.2), Segment(0, 0.0, 0.1), Segment(3, 0.9, 0.2)], classes=CLASSES, seed=1)
    runs = ((1000 * int(label) + int(draw.integers(200)), int(draw.integers(1, 9))) for label in labels)
    return [code + place for code, length in runs for place in range(length)]


CODES = drifting_codes()
FRAMES: Frames = [(float(place), code) for place, code in enumerate(CODES)]


@pytest.fixture(scope="module", params=[True, False], ids=["trained", "reweighted"])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SpecializationSpec:
    return pictured(spec(tmp_path_factory.mktemp("parts") / "parts.npz", trains=request.param))


@pytest.fixture(scope="module")
def expected(models: SpecializationSpec) -> list[Any]:
    return in_a_loop(models, FRAMES)


def pictured(models: SpecializationSpec, difference: float | None = THRESHOLD) -> SpecializationSpec:
    return replace(
        models,
        oracle=replace(models.oracle, function=Pictured(CodedScores())),
        networks=(Pictured(CodedFeatures()),),
        difference=None if difference is None else DifferenceDetector(difference),
    )


@dataclass
class StateOfSpark:
    """Values of the state store, as tuples."""

    row: tuple[Any, ...] | None = None
    kinds: list[str] = field(default_factory=list)

    def getValueState(self, name: str, schema: str) -> StateOfSpark:
        self.kinds = [part.split()[1] for part in schema.split(",")]
        return self

    def get(self) -> tuple[Any, ...] | None:
        return self.row

    def update(self, row: tuple[Any, ...]) -> None:
        types = {"string": str, "binary": bytes, "double": float, "int": int}
        for value, kind in zip(row, self.kinds, strict=True):
            assert value is None or type(value) is types[kind]
        self.row = row


def stored(spec: SpecializationSpec, memory: StreamMemory) -> StreamMemory:
    processor = StreamProcessor(spec, "", ())
    processor.init(StateOfSpark())  # type: ignore[arg-type]
    processor._store(memory)
    return processor._load()


def labelled(spec: SpecializationSpec, frames: Frames, cuts: Sequence[int] = ()) -> list[Any]:
    """Label frames in batches, whose memory passes through the state store; rows are in the order of the frames."""
    opened, memory = OpenModels(spec, 1), StreamMemory()
    rows: list[Any] = [None] * len(frames)
    for start, end in pairwise([0, *sorted(cuts), len(frames)]):
        order = sorted(range(start, end), key=lambda row: key(frames[row]))
        pictures = pa.array([picture(frames[row][1]) for row in order], PICTURE)
        batch = pa.RecordBatch.from_arrays([pictures], names=["frame"])
        times = np.array([np.nan if frames[row][0] is None else frames[row][0] for row in order], np.float64)
        digests = np.array([digest(frames[row][1]) for row in order], np.int64)
        for row, label in zip(order, StreamLabelling(opened, "", memory).label(batch, times, digests), strict=True):
            answer = None if label.label == OTHER else spec.labels[label.label]
            # The detector and the models describe the same fault in other words.
            rows[row] = (answer, label.model, label.phase, label.reason)
        memory = stored(spec, memory)
    return rows


def digest(code: int | None) -> int:
    return -1 << 40 if code is None else code


def key(frame: tuple[float | None, int | None]) -> tuple[bool, float, int]:
    time, code = frame
    return time is None, time or 0.0, digest(code)


def in_a_loop(models: SpecializationSpec, frames: Frames, threshold: float = THRESHOLD) -> list[Any]:
    numbers = replace(
        models,
        oracle=replace(models.oracle, function=CodedScores()),
        networks=(CodedFeatures(),),
    )
    rows = label_in_a_loop(numbers, frames, repeats=repeats_within(threshold))
    return [(*row[:3], row[4]) for row in rows]


def test_repetitions_are_those_of_a_loop(models: SpecializationSpec, expected: list[Any]) -> None:
    assert labelled(models, FRAMES) == expected
    phases = {row[2] for row in expected}
    assert phases >= {"explore", "trial", "specialized", "repeat"}
    assert 0.4 < np.mean([row[2] == "repeat" for row in expected]) < 0.8
    assert {row[1] for row in expected if row[2] == "repeat"} > {"oracle"}, "experts' answers are repeated"


@settings(max_examples=6)
@given(cuts=st.lists(st.integers(0, len(FRAMES)), max_size=6))
def test_any_division_into_batches_repeats_the_same(
    models: SpecializationSpec, expected: list[Any], cuts: list[int]
) -> None:
    assert labelled(models, FRAMES, cuts) == expected


def test_a_batch_per_frame_repeats_the_same(models: SpecializationSpec, expected: list[Any]) -> None:
    assert labelled(models, FRAMES[:90], range(90)) == expected[:90]


@pytest.mark.parametrize("threshold", [0.0, 0.5, 1e9])
def test_other_thresholds(models: SpecializationSpec, threshold: float) -> None:
    frames: Frames = [(place / 2, CODES[place // 2]) for place in range(240)]
    rows = labelled(pictured(models, threshold), frames, [75, 76])
    assert rows == in_a_loop(models, frames, threshold)
    repeated = sum(row[2] == "repeat" for row in rows)
    assert repeated == 232 if threshold == 1e9 else 120 <= repeated < 232  # each 33rd frame is answered


@pytest.mark.parametrize("bad", [None, -1])
@pytest.mark.parametrize("cuts", [[], [1], [2]])
def test_an_unreadable_frame_between_two_equal_ones(
    models: SpecializationSpec, bad: int | None, cuts: list[int]
) -> None:
    rows = labelled(models, [(0.0, 3007), (1.0, bad), (2.0, 3007), (3.0, 3007)], cuts)
    reason = "null" if bad is None else "corrupt"
    assert rows[1] == (None, None, None, reason)
    assert [row[2] for row in rows] == ["explore", None, "explore", "repeat"]
    assert {row[0] for row in rows} == {"c3", None}


def test_duplicates_late_frames_and_frames_without_time_among_repetitions(models: SpecializationSpec) -> None:
    frames: Frames = []
    for place, (time, code) in enumerate(FRAMES[:160]):
        frames.append((time, code))
        if place % 5 == 0:
            frames += [(time, code), (None, code)]  # a duplicate
        if place % 7 == 0:
            frames += [(-1.0, code), (-2.0, 5001), (time + 0.5, None), (time + 0.6, -1)]  # late, and unreadable
    expected = in_a_loop(models, frames)
    # A late frame comes in a batch of its own: within a batch, frames are sorted.
    late = [place for place, frame in enumerate(frames) if frame[0] is not None and frame[0] < 0]
    assert labelled(models, frames, sorted({*late, *(place + 2 for place in late)})) == expected
    assert {row[2] for row in expected} >= {"late", "repeat", "explore", None}
    pairs = zip(expected, expected[1:], frames, frames[1:], strict=False)
    assert all(row == after for row, after, frame, second in pairs if frame == second)


@pytest.mark.parametrize("cuts", [[], [1], [2]])
def test_simultaneous_frames_may_repeat_each_other(models: SpecializationSpec, cuts: list[int]) -> None:
    frames: Frames = [(1.0, 4000), (1.0, 4001), (1.0, 4001), (1.0, 4002)]
    rows = labelled(models, frames, cuts)
    assert [row[2] for row in rows] == ["explore", "repeat", "repeat", "repeat"]
    assert rows == in_a_loop(models, frames)


def test_a_frame_that_models_cannot_answer_repeats_its_reason(models: SpecializationSpec) -> None:
    # The detector reads the picture, the oracle has no answer.
    @dataclass(frozen=True)
    class Silent(CodedScores):
        def answer(self, code: int) -> list[float]:
            return [float("nan")] * CLASSES

    silent = replace(models, oracle=replace(models.oracle, function=Pictured(Silent())))
    rows = labelled(silent, [(0.0, 3007), (1.0, 3007), (2.0, 3007)], [2])
    assert rows == [(None, None, None, "no answer")] * 3


def test_repetitions_are_seen_in_frames_if_the_oracle_reads_another_column(models: SpecializationSpec) -> None:
    scores = Pictured(CodedScores(), reads=("scores of",))
    other = replace(models, oracle=replace(models.oracle, function=scores))
    pictures = [pa.array([picture(code) for code in codes], PICTURE) for codes in ([3000, 3000, 4000], [1000, 2000, 0])]
    batch = pa.RecordBatch.from_arrays(pictures, names=["frame", "scores of"])
    labels = StreamLabelling(OpenModels(other, 1), "", StreamMemory()).label(batch, np.arange(3.0), np.arange(3))
    assert [(label.label, label.phase) for label in labels] == [(1, "explore"), (1, "repeat"), (0, "explore")]


def test_models_do_not_run_for_repetitions(models: SpecializationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = OpenModels.ask_oracle

    def count(self: OpenModels, frames: pa.RecordBatch) -> Any:
        asked.append(frames.num_rows)
        return ask(self, frames)

    monkeypatch.setattr(OpenModels, "ask_oracle", count)
    rows = labelled(models, FRAMES)
    needed = sum(row[1] == "oracle" and row[2] != "repeat" for row in rows)
    assert needed <= sum(asked) <= 1.3 * needed


def test_references_of_pictures_of_any_size() -> None:
    draw = np.random.default_rng(0)
    scene = draw.integers(0, 255, (48, 64, 3), np.uint8)
    larger = scene.repeat(2, axis=0).repeat(2, axis=1)  # the same thumbnail
    grey = scene[:, :, 0]
    frames = [scene, larger, grey, grey, larger]
    places, reference, _ = find_references(DifferenceDetector(1.0), frames, None)
    assert places == [None, 0, None, 2, None]
    assert reference is not None
    np.testing.assert_array_equal(reference, thumbnail(larger))
    later, _, _ = find_references(DifferenceDetector(1.0), [scene, grey, scene], reference)
    assert later == [BEFORE, None, None]


def test_block_errors_of_pairs() -> None:
    codes = [(4000, 4003), (4000, 4000), (1000, 2000), (4001, 4000), (None, 4000), (4000, -1), (None, None)]
    columns = [pa.array([picture(pair[side]) for pair in codes], PICTURE) for side in (0, 1)]
    batch = pa.RecordBatch.from_arrays(columns, names=["frame", "reference"])
    new = BlockErrors(DifferenceDetector(0.0)).open(1)(batch)
    assert new.columns[0].to_pylist() == pytest.approx([3.0, 0.0, 400 / 3, 1 / 3, None, None, None])
    assert [reason is None for reason in new.reasons] == [True] * 4 + [False] * 3
    first, second = thumbnail(picture(4000) or {}), thumbnail(picture(4003) or {})
    assert block_error(first, second) == pytest.approx(3.0)
    with pytest.raises(ImageError):
        thumbnail(picture(-1) or {})


def test_a_reference_is_repeated_a_limited_number_of_times() -> None:
    still = [np.full((48, 64, 3), 90, np.uint8)] * (2 * MOST_REPETITIONS + 3)
    whole = find_references(DifferenceDetector(1.0), still, None)[0]
    assert [row for row, place in enumerate(whole) if place is None] == [
        0,
        MOST_REPETITIONS + 1,
        2 * MOST_REPETITIONS + 2,
    ]
    cut: list[int | None] = []
    reference, repetitions = None, 0
    for start in range(0, len(still), 10):
        places, reference, repetitions = find_references(
            DifferenceDetector(1.0), still[start : start + 10], reference, repetitions
        )
        cut += places
    assert [place is None for place in cut] == [place is None for place in whole]
