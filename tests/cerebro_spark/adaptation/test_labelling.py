from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from campaigns import WIDE, campaign, frame, records, trunk_of
from pyspark import cloudpickle

from cerebro_spark import TunedModel
from cerebro_spark.errors import ColumnError, InvalidArgumentError, NoModelError
from udfs.adaptation import FeatureStore, PoolFeatures, farthest_first, segments_of
from udfs.shards import GrowingData, Ledger
from udfs.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from cerebro_spark import Adaptation

cloudpickle.register_pickle_by_value(sys.modules[__name__])

LABELLED = records(0, 90)
POOL = records(600, 624)


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Adaptation:
    """A campaign after its first cycle, whose best model reads the last layer of the trunk."""
    store = Store.from_uri(str(tmp_path_factory.mktemp("labelling")))
    one = campaign(spark, store, search_space={"lr": [0.01], "layers": [4]}, schedule="fixed")
    one.fit(frame(spark, *LABELLED))
    return one


def pool_of(spark: SparkSession, rows: list[tuple[int, list[float], int]]) -> DataFrame:
    return frame(spark, *rows).drop("y")


def features(rows: list[tuple[int, list[float], int]]) -> np.ndarray:
    with torch.no_grad():
        return trunk_of()(torch.tensor([x for _, x, _ in rows], dtype=torch.float32)).numpy()


def ids(ranked: DataFrame) -> list[int]:
    return [row["id"] for row in ranked.select("id").collect()]


def test_diversity_is_greedy_k_centre_on_the_features(made: Adaptation, spark: SparkSession) -> None:
    ranked = made.score(pool_of(spark, POOL), "diversity", limit=20)
    assert ranked.columns == ["id", "x", "score"]
    places, distances = farthest_first(features(POOL), features(LABELLED), 20)
    found = ranked.select("id", "score").collect()
    assert [row["id"] for row in found] == [POOL[place][0] for place in places]
    np.testing.assert_allclose([row["score"] for row in found], distances, rtol=1e-4)
    shuffled = made.score(pool_of(spark, POOL[::-1]).repartition(5), "diversity", limit=20)
    assert ids(shuffled) == [row["id"] for row in found]


def clusters() -> list[tuple[int, list[float], int]]:
    """Thirty records at the border of the classes, and five in each of four far corners."""
    random = np.random.default_rng(3)
    rows = [(1000 + number, random.normal(scale=0.05, size=WIDE).tolist(), 0) for number in range(30)]
    for corner in range(4):
        centre = np.zeros(WIDE)
        centre[corner % 3] = 4.0
        centre[4 + corner] = 6.0
        rows += [
            (2000 + 100 * corner + number, (centre + random.normal(scale=0.05, size=WIDE)).tolist(), 0)
            for number in range(5)
        ]
    return rows


def test_diversity_spreads_over_clusters_where_uncertainty_does_not(made: Adaptation, spark: SparkSession) -> None:
    pool = pool_of(spark, clusters())
    spread = {number // 100 for number in ids(made.score(pool, "diversity", limit=4))}
    assert spread == {20, 21, 22, 23}
    assert {number // 100 for number in ids(made.score(pool, limit=8))} == {10}


def test_a_pool_need_not_be_clean(made: Adaptation, spark: SparkSession) -> None:
    """Records that are labelled already, have no value, NaN, another size or no id; one that comes twice."""
    rows = [
        *((number, x) for number, x, _ in LABELLED[:5]),
        *((number, x) for number, x, _ in POOL[:6]),
        POOL[0][:2],
        (700, None),
        (701, [float("nan")] * WIDE),
        (702, [1.0] * (WIDE + 1)),
        (703, [1.0] * (WIDE - 1) + [None]),
        (None, POOL[7][1]),
    ]
    pool = spark.createDataFrame(rows, "id long, x array<double>")
    good = [number for number, _, _ in POOL[:6]]
    found = made.score(pool, "margin").select("id", "score").collect()
    scored = [row["id"] for row in found if row["score"] is not None]
    assert sorted(scored, key=str) == sorted([*good, POOL[0][0], None], key=str)
    assert {row["id"] for row in found[len(scored) :]} == {700, 701, 702, 703}
    assert set(ids(made.score(pool, "diversity"))) == set(good)
    assert not {number for number, _, _ in LABELLED} & set(ids(made.score(pool, "random")))


@pytest.mark.parametrize("how", ["entropy", "diversity", "random"])
def test_an_empty_pool_has_no_rank(made: Adaptation, spark: SparkSession, how: str) -> None:
    empty = spark.createDataFrame([], "id long, x array<double>")
    assert made.score(empty, how).collect() == []


def test_bad_pools_are_refused(made: Adaptation, spark: SparkSession) -> None:
    pool = pool_of(spark, POOL)
    for how in ("least_confidence", "diversity"):
        with pytest.raises(ColumnError, match="must be one of the columns id, got 'x'"):
            made.score(pool.drop("x"), how)
        with pytest.raises(ColumnError, match="'score' exists already"):
            made.score(pool.withColumnRenamed("id", "score"), how)
    for how in ("random", "diversity"):
        with pytest.raises(ColumnError, match="no column 'id'"):
            made.score(pool.drop("id"), how)
    assert made.score(pool.drop("id"), limit=3).count() == 3
    for limit in (0, True, 1.5):
        with pytest.raises(InvalidArgumentError, match="limit must be"):
            made.score(pool, limit=limit)
    with pytest.raises(NoModelError, match=r"fit\(batch\)"):
        campaign(spark, made.store, name="new").score(pool, "diversity")


def test_a_value_has_no_uncertainty() -> None:
    model = TunedModel(b"", {"kind": "value", "label": "price", "threshold": 0.0})
    with pytest.raises(InvalidArgumentError, match=r"'price' is a value.*diversity"):
        model.output_uncertainty("margin")


def test_a_record_of_a_scored_pool_passes_the_trunk_once(spark: SparkSession, store: Store) -> None:
    """Of the second batch ten were in the pool, one was there with other features, and five were in none."""
    made = campaign(spark, store, search_space={"lr": [0.01], "layers": [4]}, schedule="fixed", max_records=130)
    first = made.fit(frame(spark, *LABELLED))
    features_of = FeatureStore(store, "campaign", made_with=f"torch {version('torch')}")
    (key,) = features_of.expressions()
    labelled_bytes = features_of.used_bytes()
    pool = pool_of(spark, POOL)
    scored = {row["id"]: row["score"] for row in made.score(pool).collect()}
    pool_bytes = features_of.used_bytes() - labelled_bytes
    assert pool_bytes == labelled_bytes * len(POOL) // len(LABELLED)
    plain = {row["id"]: row["score"] for row in first.best_model.uncertainty(pool).collect()}
    again = {row["id"]: row["score"] for row in made.score(pool.repartition(3)).collect()}
    assert set(scored) == {number for number, _, _ in POOL}
    for number, score in scored.items():
        assert score == pytest.approx(plain[number], abs=1e-5)
        assert score == pytest.approx(again[number], abs=1e-6)
    assert features_of.used_bytes() - labelled_bytes == pool_bytes
    changed = (POOL[10][0], [0.25] * WIDE, 1)
    batch = [*POOL[:10], changed, *records(800, 805)]
    second = made.fit(frame(spark, *batch))
    assert second.materialised.trunk_rows == 6
    data = second.prepared
    assert isinstance(data, GrowingData)
    own = [segment for segment in segments_of(data) if segment.increment == 1]
    assert sum(segment.rows for segment in own) == len(batch)
    by_id = {str(number): x for number, x in zip([row[0] for row in batch], features(batch), strict=True)}
    for segment in own:
        ids_of, _ = Ledger(data.increments, segment.split, segment.partition).records(1)
        np.testing.assert_allclose(
            features_of.open(key, segment)[:], np.stack([by_id[one] for one in ids_of]), rtol=0, atol=1e-5
        )
    # The planned layers alone fit: the pool goes, and the labelled records' layers stay.
    row_bytes = labelled_bytes // len(LABELLED)
    made.disk_bytes = 130 * row_bytes
    third = made.fit(frame(spark, *records(900, 908)))
    assert third.plan is not None
    assert len(third.plan.materialised) == 1
    assert third.materialised.trunk_rows == 8
    assert PoolFeatures(features_of).is_empty
    assert features_of.used_bytes() == row_bytes * (len(LABELLED) + len(batch) + 8)


@pytest.mark.slow
def test_a_full_disk_keeps_nothing_of_a_pool(
    spark: SparkSession, store: Store, small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    """The labelled records' layers have taken the disk; the pool is ranked all the same."""
    (tmp_path / "store").mkdir(exist_ok=True)
    (tmp_path / "store" / "features").symlink_to(small_disk("96k"))
    made = campaign(spark, store, search_space={"lr": [0.01], "layers": [4]}, max_records=90)
    cycle = made.fit(frame(spark, *LABELLED))
    kept = FeatureStore(store, "campaign").used_bytes()
    assert kept > 0
    large = pool_of(spark, records(2000, 2300))
    plain = {row["id"]: row["score"] for row in cycle.best_model.uncertainty(large).collect()}
    scored = {row["id"]: row["score"] for row in made.score(large).collect()}
    assert scored == pytest.approx(plain, abs=1e-5)
    assert len(made.score(large, "diversity", limit=7).collect()) == 7
    assert FeatureStore(store, "campaign").used_bytes() < 96 << 10


@pytest.mark.extended
def test_uncertainty_and_lot_ask_for_other_records(spark: SparkSession, store: Store) -> None:
    """Two campaigns that begin alike; what uncertainty has seen passes the frozen layers no second time."""
    pool = records(600, 700)
    asked = {}
    for how in ("least_confidence", "random"):
        made = campaign(
            spark, store, name=how, search_space={"lr": [0.01], "layers": [4]}, schedule="fixed", max_records=130
        )
        first = made.fit(frame(spark, *LABELLED))
        if how == "least_confidence":
            plain = first.best_model.uncertainty(pool_of(spark, pool)).orderBy("score", ascending=False).limit(20)
            expected = set(ids(plain))
        asked[how] = set(ids(made.score(pool_of(spark, pool), how, limit=20)))
        second = made.fit(frame(spark, *(row for row in pool if row[0] in asked[how])))
        assert sum(shard.rows for shard in second.prepared.shards) == len(LABELLED) + 20
        assert second.materialised.trunk_rows == (0 if how == "least_confidence" else 20)
        assert [line.records for line in second.cycles] == [90, 110]
        # None of what was labelled is asked for again.
        assert len(ids(made.score(pool_of(spark, pool), how))) == len(pool) - 20
    assert asked["least_confidence"] == expected
    assert asked["random"] != expected
