"""Speed and accuracy of sequential specialization on a video of scenes, against the oracle on every frame.

``python -m benchmarks.specialization.scenes`` renders scenes of 5 to 60 s that show one or two of 265 photographs in
views that drift, and labels every frame in this process, on one thread: by the oracle in batches, by specialised
models, and by these with a difference detector. Its threshold is chosen on another video. Times are CPU seconds.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from weights import mobilenet_v2  # a program of the examples, not a package

from benchmarks.harness.report import Report, load_average
from benchmarks.specialization._pictures import stamp_pictures
from benchmarks.specialization._streams import draw_scenes, scene_frames, scene_labels
from benchmarks.specialization.streams import prepare
from optimizer.specialization import choose_threshold
from udfs.specialization import LinearScores, OpenModels, StreamLabelling, StreamMemory, read_parts
from udfs.video import DifferenceDetector, block_error, thumbnail
from vista_spark import CNNFeaturizer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from benchmarks.specialization._pictures import Pictures
    from udfs.specialization import FrameLabel, SpecializationSpec

_ORACLE, _COMPACTS = "mobilenet_v2:224", "mobilenet_v2:64,mobilenet_v2:96"
_BATCH = 32
_LAGS = (1, 2, 4, 8, 16, 32)


class Video(NamedTuple):
    """Frames as images of Spark, their pixels, and their true classes."""

    frames: pa.RecordBatch
    pixels: list[NDArray[np.uint8]]
    labels: NDArray[np.int64]


def render_video(pictures: Pictures, minutes: float, fps: float, seed: int) -> Video:
    """Render scenes from a few classes, so that they recur."""
    scenes = draw_scenes(pictures, minutes, pool=12, seed=seed)
    _, labels = scene_labels(scenes, fps)
    pixels = list(scene_frames(scenes, pictures, fps, seed=seed))
    images = [
        {
            "origin": "",
            "height": frame.shape[0],
            "width": frame.shape[1],
            "nChannels": 3,
            "mode": 16,
            "data": frame[:, :, ::-1].tobytes(),
        }
        for frame in pixels
    ]
    return Video(pa.RecordBatch.from_pydict({"frame": pa.array(images)}), pixels, labels)


def with_networks(spec: SpecializationSpec, oracle: str, compacts: Sequence[str]) -> SpecializationSpec:
    """Return the specification with networks that run on frames, instead of stored features."""

    def features(model: str) -> Any:
        body, _, size = model.partition(":")
        stage = CNNFeaturizer(
            model=body, weights=str(mobilenet_v2()), layers="pool", pooling="mean", imageSize=int(size), device="cpu"
        )
        return stage.inference(stage.open_network(), reads=["frame"], outputs=["features"])

    head = read_parts(spec.parts).oracle
    assert head is not None
    member = replace(spec.oracle, function=LinearScores(features(oracle), head))
    return replace(spec, oracle=member, networks=tuple(features(each) for each in compacts))


def ask_oracle(spec: SpecializationSpec, video: Video) -> tuple[NDArray[np.int64], float]:
    """Run the oracle on all frames; return its answers and CPU seconds."""
    models = OpenModels(spec, 1)
    models.ask_oracle(video.frames.slice(0, _BATCH))
    begun = time.process_time()
    labels: list[FrameLabel] = []
    for start in range(0, video.frames.num_rows, _BATCH):
        labels += models.ask_oracle(video.frames.slice(start, _BATCH))
    return np.array([label.label for label in labels]), time.process_time() - begun


def label_stream(spec: SpecializationSpec, video: Video) -> tuple[list[FrameLabel], float]:
    """Label all frames; return the labels and CPU seconds."""
    models = OpenModels(spec, 1)
    models.ask_oracle(video.frames.slice(0, _BATCH))
    for network in range(len(spec.networks)):
        models.features(network, video.frames.slice(0, _BATCH))
    labelling = StreamLabelling(models, "video", StreamMemory())
    order = np.arange(video.frames.num_rows)
    begun = time.process_time()
    labels = labelling.label(video.frames, order.astype(float), order)
    return labels, time.process_time() - begun


def choose_difference(answers: NDArray[np.int64], video: Video, target: float, seed: int = 0) -> float | None:
    """Choose the threshold by random pairs of frames, 1 to 32 frames apart."""
    random = np.random.default_rng(seed)
    thumbnails = [thumbnail(frame) for frame in video.pixels]
    later = random.integers(max(_LAGS), len(answers), 1000)
    earlier = later - random.choice(_LAGS, len(later))
    errors = [block_error(thumbnails[before], thumbnails[after]) for before, after in zip(earlier, later, strict=True)]
    return choose_threshold(np.array(errors), answers[earlier] == answers[later], target)


def main(arguments: Sequence[str] | None = None) -> None:
    """Render videos, label them, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="minutes of a video")
    parser.add_argument("--fps", type=float, default=6.0, help="frames per second")
    parser.add_argument("--videos", type=int, default=1, help="videos, with seeds from 1")
    parser.add_argument("--data", type=Path, default=Path(".cache/demo"), help="folder of examples/stamps.py")
    parser.add_argument("--train", type=int, default=6, help="pictures per class to train on")
    parser.add_argument("--target", type=float, default=0.95, help="share of repetitions with the oracle's answer")
    parser.add_argument("--json", action="store_true", help='the last line is {"ratios": {name: number, ...}}')
    options = parser.parse_args(arguments)
    started, load = time.perf_counter(), load_average()
    pictures, compacts = stamp_pictures(options.data, options.train), _COMPACTS.split(",")
    report = Report(f"Sequential specialization of scenes: {len(pictures.names)} photographs, {options.minutes:g} min")
    totals: dict[str, list[tuple[float, float, float, float]]] = {}
    with TemporaryDirectory() as folder:
        spec = with_networks(prepare(pictures, _ORACLE, compacts, Path(folder)).spec, _ORACLE, compacts)
        other = render_video(pictures, options.minutes, options.fps, 0)
        threshold = choose_difference(ask_oracle(spec, other)[0], other, options.target)
        report.fact("threshold", threshold)
        for seed in range(1, options.videos + 1):
            video = render_video(pictures, options.minutes, options.fps, seed)
            answers, seconds = ask_oracle(spec, video)
            accuracy = float((answers == video.labels).mean())
            totals.setdefault("oracle on every frame", []).append((1.0, accuracy, 1.0, 0.0))
            variants: dict[str, DifferenceDetector | None] = {"specialised": None}
            if threshold is not None:
                variants["with the difference detector"] = DifferenceDetector(threshold)
            for name, detector in variants.items():
                labels, stream_seconds = label_stream(replace(spec, difference=detector), video)
                hits = float(np.mean([label.label == truth for label, truth in zip(labels, video.labels, strict=True)]))
                asked = np.mean([label.model == "oracle" and label.phase != "repeat" for label in labels])
                repeats = np.mean([label.phase == "repeat" for label in labels])
                totals.setdefault(name, []).append((seconds / stream_seconds, hits, float(asked), float(repeats)))
    rows = []
    for name, values in totals.items():
        speed, accuracy, asked, repeats = np.mean(values, axis=0)
        rows.append([name, f"{speed:.2f}", f"{accuracy:.3f}", f"{100 * asked:.0f}", f"{100 * repeats:.0f}"])
        report.ratio(f"speed {name}", speed, "CPU time of the oracle on every frame / CPU time")
        report.ratio(
            f"accuracy {name}",
            accuracy - np.mean([each[1] for each in totals["oracle on every frame"]]),
            "accuracy - oracle's",
        )
    report.table(
        f"Oracle {_ORACLE}, compact {_COMPACTS}", ["labelled by", "speed-up", "accuracy", "oracle %", "repeats %"], rows
    )
    report.note(f"Threshold of the detector {threshold}.")
    report.note(f"Took {time.perf_counter() - started:.0f} s; load average before {load}, after {load_average()}.")
    report.show(as_json=options.json)


if __name__ == "__main__":
    main()
