"""Figure 8: F1 on held-out rows of the structured features with each layer."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import StringIndexer
from pyspark.sql import functions as F

from benchmarks.harness.charts import bars, panels
from benchmarks.harness.photographs import labelled
from vista_spark import FeatureTransfer
from vista_spark.files import numeric_columns, read_images, read_table

if TYPE_CHECKING:
    from benchmarks.transfer._job import Workbench
    from benchmarks.transfer._study import Study

__all__ = ["accuracy"]

_DEMO = Path(__file__).resolve().parents[2] / ".cache" / "demo"


@dataclass(frozen=True, slots=True)
class Scores:
    """Sets of features by name, with their length and F1, as figure 8 shows them."""

    rows: tuple[tuple[str, int, float], ...]
    train: int
    test: int


@dataclass(frozen=True, slots=True)
class Labelled:
    """A transfer on a folder as ``examples/stamps.py`` makes it.

    Parameters
    ----------
    folder : str
    rows : int
        At most.
    layers : tuple of str
    image_size : int or None
    """

    folder: str
    rows: int
    layers: tuple[str, ...]
    image_size: int | None

    def run(self, bench: Workbench) -> Scores:
        """Run the transfer."""
        table = read_table(bench.spark, f"{self.folder}/table.csv")
        features = numeric_columns(table, ["id", "label"])
        # The table is sorted by its label.
        table = table.orderBy(F.xxhash64("id")).limit(self.rows)
        table = StringIndexer(inputCol="label", outputCol="class").fit(table).transform(table)
        pictures = read_images(bench.spark, f"{self.folder}/images", "id", "image", table)
        result = FeatureTransfer(
            model=bench.setup.model,
            weights=bench.setup.weights,
            layers=self.layers,
            downstream=LogisticRegression(maxIter=10, regParam=0.01, elasticNetParam=0.5),
            test_fraction=0.3,
            hog=True,
            image_size=self.image_size,
            batch_size=bench.setup.batch_size,
            device="cpu",
            experiment=None,
            progress=False,
        ).run(table, pictures, feature_columns=features, label_column="class")
        names = result.to_pandas()["features"]
        rows = tuple((name, row.size, row.score) for name, row in zip(names, result.rows, strict=True))
        return Scores(rows, result.train_rows, result.test_rows)


def accuracy(study: Study, data: Path | None, image_size: int | None, scratch: Path) -> None:
    """Figure 8.

    Parameters
    ----------
    study : Study
    data : Path or None
        A folder that ``examples/stamps.py`` or ``examples/punks.py`` made; the demo's, or photographs of packages by
        default.
    image_size : int or None
        Of the network, its own by default.
    scratch : Path
        For photographs.
    """
    folder = data or (_DEMO if (_DEMO / "table.csv").is_file() else None)
    rows = study.images
    if folder is None:
        folder = _photographs(scratch / "labelled", rows)
        of = "random crops of packages' photographs (crops of one are on both sides of the split: too easy)"
    else:
        with (folder / "table.csv").open(encoding="utf-8", newline="") as file:
            header, *body = csv.reader(file)
        of = "stamps of Tux Paint, photographs" if "spoken_descriptions" in header else f"the data set in {folder}"
        # So few that all of them are cheap.
        rows = len(body) if rows >= 64 else rows
    found: Scores = study.master(study.cores).run(Labelled(str(folder), rows, study.layers, image_size))
    report = study.report
    report.table(
        f"Figure 8: F1, {found.train} rows to train on, {found.test} held out",
        ("features", "length", "F1", "lift"),
        [
            (name, str(size) if size else "", f"{score:.3f}", f"{score - found.rows[0][2]:+.3f}")
            for name, size, score in found.rows
        ],
    )
    report.note(
        f"Figure 8's data: {of}. Logistic regression as in the paper: 10 iterations, elastic net 0.5, regularization "
        "0.01."
    )
    structured, hog, *layers = found.rows
    best, _, score = max(layers, key=lambda row: row[2])
    report.ratio("f1_best_over_structured", score / structured[2], f"F1 of {best} / structured only")
    report.ratio("f1_best_over_hog", score / hog[2], f"F1 of {best} / structured + HOG")
    figure, (axes,) = panels(f"Figure 8: {study.setup.model} on {of.partition(' (')[0]}")
    scores = {name: score for name, _, score in found.rows}
    bars(axes, scores, f"F1 on {found.test} rows held out", chosen=best, form="%.3f")
    axes.axvline(structured[2], color="#6c757d", linestyle="--", linewidth=1)
    study.save(figure, "figure8")


def _photographs(folder: Path, count: int) -> Path:
    (folder / "images").mkdir(parents=True)
    with (folder / "table.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("id", "label", "bytes", "brightness"))
        for number, (label, picture) in enumerate(labelled(count)):
            path = folder / "images" / f"p{number}.jpg"
            path.write_bytes(picture)
            writer.writerow((path.stem, label, len(picture), float(np.asarray(Image.open(path)).mean())))
    return folder
