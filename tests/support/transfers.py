"""The job that is run locally and on clusters, and what must come out the same."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from photographs import crops, encode
from pyspark.ml import PipelineModel

from vista_spark.files import read_images, read_table

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["Transfer", "write_inputs"]

COUNT = 16


@dataclass(frozen=True, slots=True)
class Transfer:
    """Photographs, a table and weights in a folder, and the command over them."""

    folder: Path

    @property
    def weights(self) -> Path:
        return self.folder / "weights.pt"

    @property
    def images(self) -> Path:
        return self.folder / "images"

    def command(self, out: Path) -> tuple[str, ...]:
        return (
            *("transfer", "--images", str(self.images), "--table", str(self.folder / "table.csv")),
            *("--on", "key", "--label", "kind", "--model", "squeezenet1_1", "--weights", str(self.weights)),
            *("--layers", "fire9,1", "--test-fraction", "0.4", "--out", str(out)),
        )

    def assert_same(self, found: Path, expected: Path, spark: SparkSession) -> None:
        """Scores and predictions agree; seconds differ."""
        tables = [pd.read_csv(place / "layers.csv").set_index("features") for place in (found, expected)]
        for table in tables:
            assert list(table.index) == ["structured only", "structured + fire9", "structured + pool10"]
            assert list(table["size"]) == [0, 2048, 1000]
        score = tables[0].columns[1]
        np.testing.assert_allclose(tables[0][score], tables[1][score], rtol=0, atol=1e-6)
        ours, theirs = (self._predictions(place, spark) for place in (found, expected))
        assert len(ours) == COUNT
        assert list(ours["predicted_kind"]) == list(theirs["predicted_kind"])
        assert set(ours["predicted_kind"]) == {"china", "flower"}
        np.testing.assert_allclose(ours["china"], theirs["china"], rtol=0, atol=1e-4)

    def _predictions(self, out: Path, spark: SparkSession) -> pd.DataFrame:
        table = read_table(spark, str(self.folder / "table.csv"))
        images = read_images(spark, str(self.images), "key", "image", table)
        predicted = PipelineModel.load(str(out / "best_model")).transform(table.join(images, "key"))
        rows = predicted.select("key", "predicted_kind", "probability").collect()
        return pd.DataFrame(
            sorted((row.key, row.predicted_kind, row.probability[0]) for row in rows),
            columns=["key", "predicted_kind", "china"],
        )


def write_inputs(folder: Path) -> None:
    """Small real photographs of two things, with the place they were cut from as structured features."""
    (folder / "images").mkdir(parents=True)
    rows = []
    for number, (label, left, top, picture) in enumerate(crops(COUNT)):
        (folder / "images" / f"{number:03d}.jpg").write_bytes(encode(picture))
        rows.append({"key": number, "kind": "flower" if label else "china", "left": left, "top": top})
    with (folder / "table.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
