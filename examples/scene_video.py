"""Make a video of scenes with known classes: emoji, of which each scene of 15 to 45 s shows one or two.

``python examples/scene_video.py --out FOLDER`` writes ``train.parquet`` (JPEG bytes in ``frame``, names in ``label``;
drawings of three vendors), ``video/north/000.mp4`` and so on (segments of 10 s at 6 frames per second, as a camera
writes them; drawings of a fourth vendor), and ``truth.parquet`` (``t`` in seconds and the name in ``truth``).
``examples/vendor_emoji.py`` fetches the drawings. The same seed gives the same scenes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the benchmarks draw the pictures

from benchmarks.specialization._pictures import emoji_pictures
from benchmarks.specialization._streams import draw_scenes, scene_frames, scene_labels

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["FPS", "SEGMENT_SECONDS", "write_scenes"]

FPS, SEGMENT_SECONDS = 6, 10
_SIZE = (192, 144)


def write_scenes(folder: Path, *, classes: int = 100, minutes: float = 4.0, seed: int = 0) -> Path:
    """Write training pictures, the video and its true labels.

    Parameters
    ----------
    folder : Path
        Folder to write; an earlier video there is replaced.
    classes : int
        Number of classes of the training pictures. The scenes show six of them.
    minutes : float
        Duration of the video.
    seed : int
        Seed of the classes and scenes.

    Returns
    -------
    Path
        The folder.
    """
    shutil.rmtree(folder / "video", ignore_errors=True)
    (folder / "video" / "north").mkdir(parents=True)
    pictures = emoji_pictures(classes, test=1, seed=seed)
    train = [
        (jpeg, pictures.names[label])
        for jpeg, label, is_test in zip(pictures.jpegs, pictures.labels, pictures.is_test, strict=True)
        if not is_test
    ]
    pd.DataFrame(train, columns=["frame", "label"]).to_parquet(folder / "train.parquet", index=False)
    scenes = draw_scenes(pictures, minutes, seconds=(15, 45), pool=6, seed=seed)
    times, labels = scene_labels(scenes, FPS)
    truth = pd.DataFrame({"t": times, "truth": [pictures.names[label] for label in labels]})
    truth.to_parquet(folder / "truth.parquet", index=False)
    frames, number = scene_frames(scenes, pictures, FPS, size=_SIZE, seed=seed), 0
    while part := list(islice(frames, FPS * SEGMENT_SECONDS)):
        _encode(folder / "video" / "north" / f"{number:03}.mp4", part)
        number += 1
    return folder


def _encode(path: Path, frames: Sequence[NDArray[np.uint8]]) -> None:
    with av.open(str(path), "w") as container:
        stream: Any = container.add_stream("libx264", rate=Fraction(FPS))
        stream.width, stream.height, stream.pix_fmt = *_SIZE, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode(None))


def main() -> None:
    """Write the scenes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--classes", type=int, default=100, help="classes of the training pictures")
    parser.add_argument("--minutes", type=float, default=4.0, help="duration of the video")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scenes")
    options = parser.parse_args()
    print(write_scenes(options.out, classes=options.classes, minutes=options.minutes, seed=options.seed))


if __name__ == "__main__":
    main()
