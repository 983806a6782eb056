"""A driver program: features with the weights of two files of one name, which are gone before the first task.

Arguments: the master, a folder of images, the two files, and where to save the features.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from vista_spark import CNNFeaturizer, session


def main(master: str, images: str, first: str, second: str, out: str) -> None:
    spark = session(master, ship=True)
    rows = [(number, path.read_bytes()) for number, path in enumerate(sorted(Path(images).iterdir()))]
    df = spark.createDataFrame(rows, "id long, image binary").repartition(2)
    common = {"model": "squeezenet1_1", "layers": "pool10", "imageSize": 64, "outputFormat": "array"}
    for column, weights in (("first", first), ("second", second)):
        df = CNNFeaturizer(**common, weights=weights, outputCols=[column], errorCol=f"{column}_error").transform(df)
    # A file that was sent already is not looked for again, were it gone meanwhile.
    for weights in (first, second):
        Path(weights).unlink()
    found = df.orderBy("id").collect()
    assert not [row for row in found if row.first_error or row.second_error], found
    np.savez(out, **{name: np.array([row[name] for row in found], np.float32) for name in ("first", "second")})
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
