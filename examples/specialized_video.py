"""Label a video of scenes by specialised models, and draw phase, model and cost: the picture of docs/specialization.md.

``python examples/specialized_video.py --scenes .cache/scenes --out specialization.png`` makes the video with
``examples/scene_video.py`` where it is missing. The oracle is MobileNetV2 at 224 pixels, the compact model the same
network at 96; both have ImageNet's weights (``examples/weights.py``) and a head for 100 emoji.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from pyspark.sql import functions as F
from scene_video import FPS, SEGMENT_SECONDS, write_scenes
from weights import mobilenet_v2

from vista_spark import CNNFeaturizer, SpecializedClassifier, session, video


def main() -> None:
    """Fit, label, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=Path, default=Path(".cache/scenes"), help="folder of examples/scene_video.py")
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    options = parser.parse_args()
    if not (options.scenes / "truth.parquet").exists():
        write_scenes(options.scenes)
    settings = {"spark.log.level": "ERROR", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    spark = session("local[2]", conf=settings)
    train, truth = (spark.read.parquet(str(options.scenes / f"{name}.parquet")) for name in ("train", "truth"))
    files = video.read(spark, str(options.scenes / "video"), fps=FPS)
    camera, number = F.split("camera", "/")[0], F.split("camera", "/")[1].cast("int")
    time = F.round(F.col("t") + number * SEGMENT_SECONDS, 3)
    frames = files.select(camera.alias("camera"), time.alias("t"), "frame")

    weights = str(mobilenet_v2())
    oracle, compact = (
        CNNFeaturizer(model="mobilenet_v2", weights=weights, layers="pool", pooling="mean", imageSize=pixels)
        for pixels in (224, 96)
    )
    classifier = SpecializedClassifier(oracle=oracle, compact=compact, groupCol="camera")
    model = classifier.fit(train.repartition(4))
    print(model.explain())
    labelled = model.transform(frames).drop("frame").join(truth.withColumn("t", F.round("t", 3)), "t").cache()
    timeline = model.timeline(labelled, "truth", width=2.0)
    print(timeline.explain())
    timeline.plot().savefig(options.out, dpi=100)


if __name__ == "__main__":
    main()
