"""Frames of a real video and their differences from a reference: the picture of docs/video.md.

``python examples/video_differences.py --out video.png`` reads six frames per second of 16 s of pedestrians with Spark
(vtest.avi; ``python examples/videos.py`` fetches it), and marks the frames that repeat the reference.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import demo_data
import numpy as np
import videos
from matplotlib.figure import Figure

from udfs.images import open_rgb
from udfs.video import DifferenceDetector
from vista_spark import session, video

if TYPE_CHECKING:
    from pyspark.sql import Row

FPS, SECONDS, SHOWN, THRESHOLD = 6, 16, 8, 500.0


def draw(rows: list[Row]) -> tuple[Figure, float]:
    """Draw every few frames above the errors of all; return the share of repetitions too."""
    detector, reference = DifferenceDetector(THRESHOLD), None
    errors, repeats = [], []
    for row in rows:
        result = detector.detect(row["frame"].asDict(), reference)
        reference = result.reference
        errors.append(result.error)
        repeats.append(result.is_repetition)
    times, values, is_repetition = np.array([row["t"] for row in rows]), np.array(errors), np.array(repeats)
    figure = Figure(figsize=(10, 3.9), dpi=100, layout="constrained")
    grid = figure.add_gridspec(2, SHOWN, height_ratios=(1, 1.9))
    for place, row in enumerate(rows[:: len(rows) // SHOWN][:SHOWN]):
        axes = figure.add_subplot(grid[0, place])
        axes.imshow(np.asarray(open_rgb(row["frame"].asDict())))
        axes.set_title(f"{row['t']:.1f} s", fontsize=9)
        axes.set_axis_off()
    axes = figure.add_subplot(grid[1, :])
    for mask, colour, name in ((is_repetition, "C0", "repeats the reference"), (~is_repetition, "C1", "new reference")):
        axes.vlines(times[mask], 0, np.minimum(values[mask], 1e4), color=colour, linewidth=2, label=name)
    axes.axhline(THRESHOLD, color="0.3", linestyle="--", linewidth=1, label=f"threshold {THRESHOLD:g}")
    axes.set(xlabel="time (s)", ylabel="largest error of a block\n(squared grey levels)", xlim=(-0.2, SECONDS + 0.2))
    axes.set_ylim(0, 1.35 * values[np.isfinite(values)].max())
    axes.legend(frameon=False, ncols=3, loc="upper center")
    axes.spines[["top", "right"]].set_visible(False)
    return figure, float(is_repetition.mean())


def main() -> None:
    """Read the frames and draw them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="picture to write")
    arguments = parser.parse_args()
    folder = videos.fetch(demo_data.cache_folder(None))
    spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
    rows = (
        video.read(spark, str(folder), fps=FPS, limit=FPS * SECONDS, size=(256, 192)).orderBy("camera", "t").collect()
    )
    figure, share = draw(rows)
    figure.savefig(arguments.out)
    print(f"{len(rows)} frames, {share:.0%} repeat the reference")


if __name__ == "__main__":
    main()
