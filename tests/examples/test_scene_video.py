"""The video of scenes has the frames and the classes that its tables say."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest
from places import EXAMPLES

av = pytest.importorskip("av")

import numpy as np
import pandas as pd
from PIL import Image

if TYPE_CHECKING:
    from pathlib import Path

COLOURS = ("red", "lime", "blue")


def coloured(classes: int, *, test: int, seed: int) -> Any:
    from benchmarks.specialization._pictures import draw_pictures  # imports programs of the examples

    assert classes == len(COLOURS)
    sources = [Image.new("RGBA", (32, 32), colour) for colour in COLOURS]
    return draw_pictures(COLOURS, [[each] for each in sources], sources, 2, test, seed)


def test_frames_show_the_class_of_their_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    scene_video = importlib.import_module("scene_video")
    monkeypatch.setattr(scene_video, "emoji_pictures", coloured)
    scene_video.write_scenes(tmp_path, classes=3, minutes=0.6, seed=1)
    scene_video.write_scenes(tmp_path, classes=3, minutes=0.5, seed=1)  # replaces the first, which is longer
    truth, train = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("truth", "train"))
    assert sorted(train["label"]) == sorted(2 * COLOURS)
    frames = []
    for path in sorted((tmp_path / "video" / "north").iterdir()):
        with av.open(str(path)) as container:
            part = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        assert len(part) == scene_video.FPS * scene_video.SEGMENT_SECONDS
        frames += part
    assert truth["t"].tolist() == pytest.approx((np.arange(180) / 6).tolist())
    assert len(frames) == len(truth)
    assert len(set(truth["truth"])) > 1
    middle = np.array([frame[60:84, 84:108].mean(axis=(0, 1)) for frame in frames])
    mean = {name: middle[truth["truth"] == name].mean(axis=0) for name in set(truth["truth"])}
    for name, colour in mean.items():
        assert int(colour.argmax()) == COLOURS.index(name)
