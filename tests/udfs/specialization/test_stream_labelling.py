"""Labels of streams against a plain loop over the frames, for any division into batches and for every bad input."""

from __future__ import annotations

import json
import threading
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from coded_frames import CLASSES, CodedFeatures, CodedScores, label_in_a_loop, spec

from optimizer.specialization import OTHER, Segment, SpecializationState, draw_labels
from udfs.specialization import FrameLabel, OpenModels, StreamLabelling, StreamMemory, _expert_training
from udfs.specialization._expert_head import HeadAnswers, TrainedExpert, heads_from_bytes, heads_to_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from udfs.specialization import SpecializationSpec

Frames = list[tuple[float | None, int | None]]


def codes(segments: Sequence[Segment], seed: int = 1) -> list[int]:
    draw = np.random.default_rng(seed)
    return [1000 * int(label) + int(draw.integers(900)) for label in draw_labels(segments, classes=CLASSES, seed=seed)]


CODES = codes([Segment(2, 0.95, 0.5), Segment(0, 0.0, 0.2), Segment(3, 0.9, 0.5)])
FRAMES: Frames = [(float(place), code) for place, code in enumerate(CODES)]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> SpecializationSpec:
    return spec(tmp_path_factory.mktemp("rows") / "rows.npz")


@pytest.fixture(scope="module")
def reweighted(tmp_path_factory: pytest.TempPathFactory) -> SpecializationSpec:
    return spec(tmp_path_factory.mktemp("heads") / "heads.npz", trains=False)


@pytest.fixture(scope="module")
def expected(models: SpecializationSpec) -> list[Any]:
    return label_in_a_loop(models, FRAMES)


def stored(memory: StreamMemory) -> StreamMemory:
    """Pass the memory of a stream through the values that the state store holds."""
    answered = json.loads(json.dumps(list(memory.answered.items())))
    return StreamMemory(
        SpecializationState.from_json(memory.state.to_json()),
        heads_from_bytes(heads_to_bytes(memory.heads)),
        memory.time,
        {int(digest): FrameLabel(*label) for digest, label in answered},
    )


def labelled(
    spec: SpecializationSpec, frames: Frames, cuts: Sequence[int] = (), stream: str = "", *, restarts: bool = False
) -> list[Any]:
    """Label frames in batches, each sorted as Spark sorts it, and return the rows in the order of the frames."""
    opened, memory = OpenModels(spec, 1), StreamMemory()
    rows: list[Any] = [None] * len(frames)
    bounds = [0, *sorted(cuts), len(frames)]
    for start, end in pairwise(bounds):
        order = sorted(range(start, end), key=lambda row: _key(frames[row]))
        batch = pa.RecordBatch.from_arrays([pa.array([frames[row][1] for row in order], pa.int64())], names=["frame"])
        times = np.array([np.nan if frames[row][0] is None else frames[row][0] for row in order], np.float64)
        digests = np.array([_digest(frames[row][1]) for row in order], np.int64)
        if restarts:
            opened = OpenModels(spec, 1)
        labels = StreamLabelling(opened, stream, memory).label(batch, times, digests)
        for row, label in zip(order, labels, strict=True):
            rows[row] = label
        memory = stored(memory)
    return [
        (None if row.label == OTHER else spec.labels[row.label], row.model, row.phase, row.confidence, row.reason)
        for row in rows
    ]


def _digest(code: int | None) -> int:
    return -1 << 40 if code is None else code


def _key(frame: tuple[float | None, int | None]) -> tuple[bool, float, int]:
    time = np.nan if frame[0] is None else frame[0]
    return bool(np.isnan(time)), time, _digest(frame[1])


def assert_same(rows: list[Any], expected: list[Any]) -> None:
    assert [(*row[:3], row[4]) for row in rows] == [(*row[:3], row[4]) for row in expected]
    # A product of matrices adds in another order for another number of rows.
    left, right = (
        np.array([np.nan if row[3] is None else row[3] for row in each], np.float64) for each in (rows, expected)
    )
    np.testing.assert_allclose(left, right, atol=1e-6)


def accuracy(rows: list[Any]) -> float:
    return float(np.mean([row[0] == f"c{code // 1000}" for row, code in zip(rows, CODES, strict=True)]))


def test_frames_are_labelled_as_in_a_loop(models: SpecializationSpec, expected: list[Any]) -> None:
    assert_same(labelled(models, FRAMES), expected)
    assert {row[2] for row in expected} == {"explore", "train", "trial", "specialized"}
    assert sum(row[1].startswith("small") for row in expected) > len(FRAMES) / 3
    assert accuracy(expected) > 0.97


@settings(max_examples=8)
@given(cuts=st.lists(st.integers(0, len(FRAMES)), max_size=6), restarts=st.booleans())
def test_any_division_into_batches_gives_the_same(
    models: SpecializationSpec, expected: list[Any], cuts: list[int], restarts: bool
) -> None:
    assert_same(labelled(models, FRAMES, cuts, restarts=restarts), expected)


def test_experts_that_are_not_trained(reweighted: SpecializationSpec) -> None:
    answers = label_in_a_loop(reweighted, FRAMES)
    for cuts in ([], [43, 44, 160, 300]):
        assert_same(labelled(reweighted, FRAMES, cuts), answers)
    assert sum(row[1].startswith("small") for row in answers) > len(FRAMES) / 3
    assert accuracy(answers) > 0.97


def test_a_batch_per_frame_gives_the_same(models: SpecializationSpec, expected: list[Any]) -> None:
    assert_same(labelled(models, FRAMES[:160], range(160)), expected[:160])


@pytest.mark.parametrize("batch_size", [1, 3, 64])
def test_the_batch_size_of_models_changes_no_label(
    models: SpecializationSpec, expected: list[Any], batch_size: int
) -> None:
    assert_same(labelled(replace(models, batch_size=batch_size), FRAMES), expected)


@pytest.mark.parametrize(
    "options",
    [
        {"training_frames": 0},
        {"training_frames": 60},
        {"epsilon": 0.0},
        {"epsilon": 1.0},
        {"experts": 1},
        {"trial_frames": 1},
        {"refines": False, "window": 30},
        {"counts_cost": False, "exit": "skew"},
    ],
)
def test_policies_give_the_labels_of_the_loop(tmp_path: Path, options: dict[str, Any]) -> None:
    models = spec(tmp_path / "rows.npz", **options)
    assert_same(labelled(models, FRAMES, [50, 51, 200]), label_in_a_loop(models, FRAMES))


def test_several_compact_models_give_the_labels_of_the_loop(tmp_path: Path) -> None:
    models = spec(tmp_path / "rows.npz", CodedFeatures(0.8), CodedFeatures(2.0))
    rows = labelled(models, FRAMES, [100, 300])
    assert_same(rows, label_in_a_loop(models, FRAMES))
    assert {row[1][:7] for row in rows} >= {"oracle", "small 0"}


def test_the_name_of_a_stream_chooses_its_checks(models: SpecializationSpec, expected: list[Any]) -> None:
    rows = labelled(models, FRAMES, [99], "left")
    assert_same(rows, label_in_a_loop(models, FRAMES, "left"))
    assert [row[1] for row in rows] != [row[1] for row in expected]


def test_frames_out_of_order_within_a_batch_are_sorted(models: SpecializationSpec, expected: list[Any]) -> None:
    order = np.random.default_rng(0).permutation(200)
    assert_same(labelled(models, [FRAMES[place] for place in order]), [expected[place] for place in order])


def test_late_frames_are_answered_by_the_oracle_and_change_nothing(
    models: SpecializationSpec, expected: list[Any]
) -> None:
    late: Frames = [(3.5, 5001), (0.0, CODES[0]), (-np.inf, 7001), (1.0, -4), (2.0, None)]
    mixed = [*FRAMES[:120], *late, *FRAMES[120:]]
    rows = labelled(models, mixed, [120, 240])
    assert_same(rows, label_in_a_loop(models, mixed))
    assert_same(rows[:120] + rows[125:], expected)
    assert [row[:3] for row in rows[120:123]] == [
        ("c5", "oracle", "late"),
        (f"c{CODES[0] // 1000}", "oracle", "late"),
        ("c7", "oracle", "late"),
    ]
    assert [(row[0], row[2], row[4]) for row in rows[123:125]] == [(None, None, "corrupt"), (None, None, "null")]


@pytest.mark.parametrize("cuts", [[], [1], [43], [43, 44], [42, 87, 128]])
def test_duplicates_have_the_answer_of_the_frame_and_change_nothing(
    models: SpecializationSpec, expected: list[Any], cuts: list[int]
) -> None:
    times = [3 if place % 40 == 0 else 1 for place in range(len(FRAMES))]
    repeated = [frame for frame, count in zip(FRAMES, times, strict=True) for _ in range(count)]
    answers = [row for row, count in zip(expected, times, strict=True) for _ in range(count)]
    assert_same(labelled(models, repeated, cuts), answers)
    assert_same(label_in_a_loop(models, repeated), answers)


def test_simultaneous_frames_are_ordered_by_their_content(models: SpecializationSpec) -> None:
    triples: Frames = sorted((float(place // 3), code) for place, code in enumerate(CODES))
    answers = label_in_a_loop(models, triples)
    assert_same(labelled(models, triples[::-1])[::-1], answers)
    assert_same(labelled(models, triples, [31, 100, 101]), answers)


def test_equal_frames_of_other_times_are_no_duplicates(models: SpecializationSpec) -> None:
    same: Frames = [(float(place), 4007) for place in range(40)]
    rows = labelled(models, same, [13])
    assert_same(rows, label_in_a_loop(models, same))
    assert len({row[2] for row in rows}) > 2


def test_bad_frames_do_not_move_the_state(models: SpecializationSpec, expected: list[Any]) -> None:
    mixed: Frames = []
    for place, frame in enumerate(FRAMES):
        mixed.append(frame)
        if place % 7 == 0:
            bad = [(None, 3001), (place + 0.5, None), (place + 0.6, -1), (float("nan"), None), (place + 0.6, -1)]
            mixed += bad
    rows = labelled(models, mixed, [40, 200, 333])
    assert_same(rows, label_in_a_loop(models, mixed))
    known = set(FRAMES)
    assert_same([row for row, frame in zip(rows, mixed, strict=True) if frame in known], expected)
    assert {row[4] for row in rows} == {None, "no time", "null", "corrupt"}
    assert all(row[:4] == (None,) * 4 for row in rows if row[4])


def test_bad_frames_alone(models: SpecializationSpec) -> None:
    rows = labelled(models, [(1.0, None), (None, None), (2.0, -5), (None, -5)], [2])
    assert [row[4] for row in rows] == ["null", "no time", "corrupt", "no time"]


def test_empty_batches(models: SpecializationSpec, expected: list[Any]) -> None:
    assert labelled(models, []) == []
    assert_same(labelled(models, FRAMES[:50], [0, 0, 25, 25]), expected[:50])


def test_a_stream_of_one_class(models: SpecializationSpec) -> None:
    frames: Frames = [(float(place), 6000 + place) for place in range(120)]
    rows = labelled(models, frames, [50])
    assert_same(rows, label_in_a_loop(models, frames))
    assert {row[0] for row in rows} == {"c6"}
    assert Counter(row[2] for row in rows)["specialized"] > 80


def test_an_oracle_that_is_often_wrong(tmp_path: Path) -> None:
    models = spec(tmp_path / "rows.npz", oracle=CodedScores(wrong=0.45))
    assert_same(labelled(models, FRAMES, [70, 71, 300]), label_in_a_loop(models, FRAMES))


def test_a_compact_model_that_knows_nothing(tmp_path: Path) -> None:
    models = spec(tmp_path / "rows.npz", CodedFeatures(signal=0.0))
    rows = labelled(models, FRAMES, [70])
    assert_same(rows, label_in_a_loop(models, FRAMES))
    assert Counter(row[2] for row in rows)["trial"] > 0


@pytest.mark.parametrize("answers_other", [False, True])
def test_a_compact_model_that_never_or_always_answers(
    models: SpecializationSpec, monkeypatch: pytest.MonkeyPatch, answers_other: bool
) -> None:
    def answers(self: TrainedExpert, features: Any) -> HeadAnswers:
        label = OTHER if answers_other else self.dominant[0]
        return HeadAnswers(np.full(len(features), label), np.full(len(features), 0.5))

    monkeypatch.setattr(TrainedExpert, "answers", answers)
    rows = labelled(models, FRAMES, [70, 200])
    assert_same(rows, label_in_a_loop(models, FRAMES))
    assert accuracy(rows) > 0.9


def test_a_training_that_fails_leaves_the_stream_to_the_oracle(
    models: SpecializationSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(_expert_training, "train_expert", fail)
    rows = labelled(models, FRAMES, [60, 130], restarts=True)
    assert_same(rows, label_in_a_loop(models, FRAMES, fails=True))
    assert {row[1] for row in rows} == {"oracle"}
    assert Counter(row[2] for row in rows)["train"] > 0


def test_a_training_that_hangs_ends_at_its_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ends = threading.Event()
    monkeypatch.setattr(_expert_training, "train_expert", lambda *arguments: ends.wait(60))
    models = spec(tmp_path / "rows.npz", timeout=0.02)
    rows = labelled(models, FRAMES[:200])
    ends.set()
    assert_same(rows, label_in_a_loop(models, FRAMES[:200], fails=True))
    assert "failed: TimeoutError; the oracle continues" in caplog.text


def test_rows_that_are_gone_leave_the_stream_to_the_oracle(tmp_path: Path) -> None:
    models = replace(spec(tmp_path / "rows.npz"), parts=str(tmp_path / "gone.npz"))
    assert {row[1] for row in labelled(models, FRAMES[:150])} == {"oracle"}


def test_memory_has_the_experts_that_the_state_knows(tmp_path: Path) -> None:
    models, memory = spec(tmp_path / "rows.npz", experts=1), StreamMemory()
    batch = pa.RecordBatch.from_arrays([pa.array(CODES)], names=["frame"])
    StreamLabelling(OpenModels(models, 1), "", memory).label(batch, np.arange(len(CODES), dtype=float), np.array(CODES))
    assert memory.state.trained > 1
    assert len(memory.heads) == 1
    assert set(memory.heads) <= {expert.name for expert in memory.state.experts}


def test_models_run_little_more_often_than_needed(models: SpecializationSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    ask = OpenModels.ask_oracle

    def count(self: OpenModels, frames: pa.RecordBatch) -> Any:
        asked.append(frames.num_rows)
        return ask(self, frames)

    monkeypatch.setattr(OpenModels, "ask_oracle", count)
    needed = sum(row[1] == "oracle" for row in labelled(models, FRAMES))
    assert needed <= sum(asked) <= 1.2 * needed
