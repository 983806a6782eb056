"""Labelled streams: segments with dominant classes as in Table 5.2, and scenes with slowly drifting pictures.

Results depend on the arguments alone, the seed among them. Sources: Shen, *System for serving deep neural networks
efficiently*, 2018, section 5.4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from benchmarks.specialization._views import draw_view, drift, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures
    from optimizer.specialization import Segment

__all__ = ["Scene", "Stream", "draw_scenes", "scene_frames", "scene_labels", "stream"]


@dataclass(frozen=True)
class Stream:
    """Frames of a stream in order.

    Parameters
    ----------
    labels : array of shape (frames,)
        True classes.
    pictures : array of shape (frames,)
        Indices of the pictures shown.
    times : array of shape (frames,)
        Times in seconds.
    """

    labels: NDArray[np.int64]
    pictures: NDArray[np.int64]
    times: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.labels)


def stream(segments: Sequence[Segment], pictures: Pictures, fps: float = 6, seed: int = 0) -> Stream:
    """Draw a stream of held-out pictures.

    Each frame is of a dominant class of its segment with the segment's probability, else of another class. The class is
    drawn uniformly, and so is the picture of the class.

    Parameters
    ----------
    segments : sequence of Segment
        Segments in order.
    pictures : Pictures
        Pictures to draw from.
    fps : float
        Frames per second.
    seed : int
        Seed of classes and pictures.

    Examples
    --------
    >>> len(stream([Segment(5, 0.9), Segment(0, 0.0)], pictures))  # doctest: +SKIP
    3600
    """
    choices = [pictures.of_class(label) for label in range(len(pictures.names))]
    labels, shown = [], []
    for place, segment in enumerate(segments):
        draw = np.random.default_rng([seed, place])
        dominant = np.sort(draw.choice(len(choices), segment.dominant, replace=False))
        others = np.setdiff1d(np.arange(len(choices)), dominant)
        for _ in range(round(segment.minutes * 60 * fps)):
            is_dominant = segment.dominant > 0 and draw.random() < segment.skew
            label = draw.choice(dominant if is_dominant else others)
            labels.append(label)
            shown.append(draw.choice(choices[label]))
    return Stream(np.array(labels, np.int64), np.array(shown, np.int64), np.arange(len(labels)) / fps)


class Scene(NamedTuple):
    """Part of a video that shows a class or two in turn.

    Parameters
    ----------
    start, end : float
        Times in seconds.
    classes : tuple of int
        Classes of the scene.
    shots : tuple of float
        Start of each shot: the classes of the scene take turns, a shot each.
    """

    start: float
    end: float
    classes: tuple[int, ...]
    shots: tuple[float, ...]

    def label(self, time: float) -> int:
        """Return the class at a time."""
        shot = int(np.searchsorted(self.shots, time, side="right")) - 1
        return self.classes[shot % len(self.classes)]


def draw_scenes(
    pictures: Pictures,
    minutes: float,
    *,
    seconds: tuple[float, float] = (5, 60),
    pool: int | None = None,
    seed: int = 0,
) -> tuple[Scene, ...]:
    """Draw consecutive scenes with one or two classes each.

    Parameters
    ----------
    pictures : Pictures
        Pictures whose classes are drawn.
    minutes : float
        Duration of all scenes together.
    seconds : tuple of float
        Shortest and longest scene.
    pool : int, optional
        Number of classes that the scenes draw from, so that they recur; all by default.
    seed : int
        Seed of the scenes.
    """
    draw = np.random.default_rng([seed, 11])
    classes = draw.permutation(len(pictures.names))[:pool]
    scenes: list[Scene] = []
    start, end = 0.0, minutes * 60
    while start < end:
        stop = min(start + draw.uniform(*seconds), end)
        shown = tuple(draw.choice(classes, min(int(draw.integers(1, 3)), len(classes)), replace=False).tolist())
        shots = [start]
        while len(shown) > 1 and (cut := shots[-1] + draw.uniform(2, 8)) < stop:
            shots.append(cut)
        scenes.append(Scene(start, stop, shown, tuple(shots)))
        start = stop
    return tuple(scenes)


def scene_labels(scenes: Sequence[Scene], fps: float = 6) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the times of the frames of scenes, in seconds, and their classes."""
    times = np.arange(round(scenes[-1].end * fps)) / fps
    places = np.searchsorted([scene.start for scene in scenes], times, side="right") - 1
    labels = [scenes[place].label(time) for place, time in zip(places, times, strict=True)]
    return times, np.array(labels, np.int64)


def scene_frames(
    scenes: Sequence[Scene], pictures: Pictures, fps: float = 6, *, size: tuple[int, int] = (128, 96), seed: int = 0
) -> Iterator[NDArray[np.uint8]]:
    """Render the frames of scenes, in order: the view drifts within a shot and changes with it.

    Parameters
    ----------
    scenes : sequence of Scene
        Scenes from :func:`draw_scenes`.
    pictures : Pictures
        Pictures of the classes.
    fps : float
        Frames per second.
    size : tuple of int
        Width and height of a frame, in pixels.
    seed : int
        Seed of views and noise.

    Yields
    ------
    array of shape (height, width, 3)
        RGB bytes of a frame.
    """
    starts = [scene.start for scene in scenes]
    for number in range(round(scenes[-1].end * fps)):
        time = number / fps
        scene = scenes[int(np.searchsorted(starts, time, side="right")) - 1]
        begun = max(shot for shot in scene.shots if shot <= time)
        shot_seed = round(1000 * begun)
        view = drift(draw_view(np.random.default_rng([seed, shot_seed])), time - begun, shot_seed)
        picture = pictures.sources[scene.label(time)]
        yield render(picture, view, size, np.random.default_rng([seed, 13, number]))
