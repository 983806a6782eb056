"""Words hashed as Spark ML does, against scikit-learn's MurmurHash3 with Spark's seed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

pytest.importorskip("sklearn")

from sklearn.utils import murmurhash3_32

from optimizer.compiling import Bag
from udfs.compiling._bag_reader import BagReader

WORDS = ["", "a", "b", "c", "\u00e9t\u00e9", "e\u0301", "\U0001f642", "\x00", "fox fox", "x" * 300, "I\u0307", "\ufeff"]


@pytest.mark.parametrize("buckets", [1, 7, 10, 262_144, 2**31 - 1])
def test_words_go_to_the_buckets_of_spark(buckets: int) -> None:
    reader = BagReader(Bag(columns=np.array([0]), analyzer="list of Spark", buckets=buckets))
    rows = [[word] for word in WORDS] + [[None], [], None, ["a", None, "a"]]
    found = reader.read(pa.array(rows, pa.list_(pa.string())), 0)
    counts = [found[at : at + 1] for at in range(len(rows))]
    # Python's remainder is never negative, and Spark's is made so.
    assert [one.columns.tolist() for one in counts[: len(WORDS)]] == [
        [murmurhash3_32(word, seed=42) % buckets] for word in WORDS
    ]
    null, empty, missing, both = counts[len(WORDS) :]
    assert (null.columns.tolist(), null.values.tolist()) == ([42 % buckets], [1.0])
    assert empty.columns.tolist() == []
    assert np.isnan(missing.values).all()
    a = murmurhash3_32("a", seed=42) % buckets
    expected = {a: 2.0} | {42 % buckets: 3.0 if a == 42 % buckets else 1.0}
    assert dict(zip(both.columns.tolist(), both.values.tolist(), strict=True)) == expected


def test_entries_that_are_no_texts_are_refused() -> None:
    reader = BagReader(Bag(columns=np.array([0]), analyzer="list of Spark", buckets=9))
    assert np.isnan(reader.read(pa.array([[1, 2]], pa.list_(pa.int64())), 0).values).all()
