"""Streams of the benchmarks of specialization: dominant classes, held-out pictures, scenes, and equal results."""

from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from benchmarks.specialization._pictures import Pictures, draw_pictures
from benchmarks.specialization._streams import draw_scenes, scene_frames, scene_labels, stream
from optimizer.specialization import Segment

COLOURS = ["red", "lime", "blue", "yellow", "white", "black", "cyan", "magenta"]


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    sources = [Image.new("RGBA", (12, 12), colour) for colour in COLOURS]
    return draw_pictures(COLOURS, [[source] for source in sources], sources, train=2, test=2, side=24)


def test_a_frame_shows_a_picture_held_out_of_its_class(pictures: Pictures) -> None:
    frames = stream([Segment(2, 0.8, 2), Segment(0, 0, 1)], pictures, fps=6, seed=3)
    assert len(frames) == 3 * 60 * 6
    assert np.array_equal(pictures.labels[frames.pictures], frames.labels)
    assert pictures.is_test[frames.pictures].all()
    assert len(np.unique(frames.pictures)) == 2 * len(COLOURS)
    assert np.allclose(np.diff(frames.times), 1 / 6)


def test_dominant_classes_have_their_share(pictures: Pictures) -> None:
    frames = stream([Segment(3, 0.8, 20), Segment(0, 0, 20)], pictures, seed=1)
    first, second = np.split(frames.labels, 2)
    # All dominant classes are equally frequent, and so are all others, and all classes of random input.
    shares = np.sort(np.bincount(first, minlength=8) / len(first))
    assert shares == pytest.approx([0.2 / 5] * 5 + [0.8 / 3] * 3, abs=0.02)
    assert np.bincount(second) / len(second) == pytest.approx([1 / 8] * 8, abs=0.02)


def test_streams_depend_on_the_seed_alone(pictures: Pictures) -> None:
    segments = [Segment(2, 0.9, 1)] * 2
    frames = stream(segments, pictures, seed=5)
    again = stream([*segments, Segment(0, 0, 1)], pictures, seed=5)
    assert np.array_equal(again.pictures[: len(frames)], frames.pictures)
    dominant = [set(np.bincount(part).argsort()[-2:]) for part in np.split(frames.labels, 2)]
    assert dominant[0] != dominant[1]
    assert not np.array_equal(stream(segments, pictures, seed=6).pictures, frames.pictures)


def test_pictures_of_fewer_classes_are_the_same(pictures: Pictures) -> None:
    sources = list(pictures.sources[:3])
    fewer = draw_pictures(COLOURS[:3], [[source] for source in sources], sources, train=2, test=2, side=24)
    assert fewer.jpegs == pictures.jpegs[: len(fewer)]
    assert len(set(pictures.jpegs)) == len(pictures)
    assert Image.open(io.BytesIO(pictures.jpegs[0])).size == (24, 24)


def test_scenes_fill_the_time(pictures: Pictures) -> None:
    scenes = draw_scenes(pictures, 4, pool=3, seed=2)
    assert [scene.start for scene in scenes] == [0.0, *(scene.end for scene in scenes[:-1])]
    assert scenes[-1].end == 240
    assert all(5 <= scene.end - scene.start <= 60 for scene in scenes[:-1])
    assert len({label for scene in scenes for label in scene.classes}) <= 3
    times, labels = scene_labels(scenes, fps=5)
    assert len(times) == len(labels) == 1200
    for scene in scenes:
        inside = (times >= scene.start) & (times < scene.end)
        assert set(labels[inside]) <= set(scene.classes)
    assert scenes == draw_scenes(pictures, 4, pool=3, seed=2)


def test_frames_drift_within_a_shot(pictures: Pictures) -> None:
    scenes = draw_scenes(pictures, 0.5, seconds=(5, 10), seed=4)
    _, labels = scene_labels(scenes)
    frames = [frame.astype(float) for frame in scene_frames(scenes, pictures, size=(32, 24))]
    assert frames[0].shape == (24, 32, 3)
    assert len(frames) == len(labels) == 180
    errors = np.array([((after - before) ** 2).mean() for before, after in pairwise(frames)])
    cuts = np.diff(labels) != 0
    assert cuts.any()
    assert np.median(errors[cuts]) > 5 * np.median(errors[~cuts])
    again = scene_frames(scenes, pictures, size=(32, 24))
    assert all(np.array_equal(frame, next(again)) for frame in frames)
