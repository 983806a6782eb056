"""Sampled neighbourhoods, against a sampler by loops over the adjacency of a real graph (Zachary's karate club)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

networkx = pytest.importorskip("networkx")
torch = pytest.importorskip("torch")

from pyspark import cloudpickle

from cerebro_spark import GridSearch, ModelTrainer, Neighbours, SparkBackend, Store
from cerebro_spark.errors import ColumnError, InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, Row, SparkSession

cloudpickle.register_pickle_by_value(sys.modules[__name__])

GRAPH = networkx.karate_club_graph()
FANOUTS = (4, 3)


@pytest.fixture(scope="module")
def edges(spark: SparkSession) -> DataFrame:
    """Edges in one direction each, with a repetition, a loop, and an edge to a node that is not in the graph."""
    rows = [(int(a), int(b)) for a, b in GRAPH.edges]
    return spark.createDataFrame([*rows, rows[0], (3, 3), (3, 999), (None, 3)], "source long, target long")


@pytest.fixture(scope="module")
def nodes(spark: SparkSession) -> DataFrame:
    """Nodes whose only feature is their number, and one without an edge."""
    rows = [(int(n), float(n), int(data["club"] == "Officer")) for n, data in GRAPH.nodes(data=True)]
    return spark.createDataFrame([*rows, (500, 500.0, 0)], "id long, number double, club int")


def adjacent(node: int) -> set[int]:
    return set(GRAPH[node]) if node in GRAPH else set()


def sampled(edges: DataFrame, nodes: DataFrame, **settings: Any) -> list[Row]:
    neighbours = Neighbours(edges, **{"fanouts": FANOUTS} | settings)
    return neighbours.transform(nodes, id_column="id", feature_columns=["number"]).orderBy("id").collect()


def numbers(row: Row, hop: int) -> list[int]:
    return [int(features[0]) for features in row[f"nodes_{hop}"]]


def test_every_draw_is_a_neighbour_and_the_mask_marks_repetitions(edges: DataFrame, nodes: DataFrame) -> None:
    rows = sampled(edges, nodes)
    assert [row["id"] for row in rows] == [*range(34), 500]
    for row in rows:
        assert row["nodes_0"] == [float(row["id"])]
        parents, weights = [row["id"]], [1.0]
        for hop, fanout in enumerate(FANOUTS, 1):
            found, mask = numbers(row, hop), row[f"mask_{hop}"]
            assert len(found) == len(mask) == fanout * len(parents)
            for place, (parent, weight) in enumerate(zip(parents, weights, strict=True)):
                drawn = found[place * fanout : (place + 1) * fanout]
                count = min(fanout, len(adjacent(parent)))
                # Without replacement while there are neighbours, then the same ones again.
                assert len(set(drawn)) == max(count, 1)
                assert set(drawn) <= (adjacent(parent) or {parent})
                assert drawn[:count] == list(dict.fromkeys(drawn))[:count]
                expected = [weight * (turn < count) for turn in range(fanout)]
                assert mask[place * fanout : (place + 1) * fanout] == expected
            parents, weights = found, mask


def test_a_fanout_above_every_degree_takes_the_whole_neighbourhood(edges: DataFrame, nodes: DataFrame) -> None:
    largest = max(degree for _, degree in GRAPH.degree)
    for row in sampled(edges, nodes, fanouts=(largest,)):
        kept = [number for number, one in zip(numbers(row, 1), row["mask_1"], strict=True) if one]
        assert sorted(kept) == sorted(adjacent(row["id"]))


def test_draws_depend_on_the_seed_alone(edges: DataFrame, nodes: DataFrame) -> None:
    first = sampled(edges, nodes)
    assert sampled(edges.repartition(3), nodes.repartition(2)) == first
    assert sampled(edges, nodes, seed=1) != first
    directed = sampled(edges, nodes, fanouts=(2,), directed=True)
    outgoing = {node: {b for a, b in GRAPH.edges if a == node} for node in GRAPH}
    for row in directed[:-1]:
        assert set(numbers(row, 1)) <= (outgoing[row["id"]] or {row["id"]})


class GraphSAGE(torch.nn.Module):
    """Two layers of mean aggregation over the sampled tensors."""

    def __init__(self, features: int, hidden: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(2 * features, hidden)
        self.second = torch.nn.Linear(2 * hidden, 2)

    def forward(self, own: Any, near: Any, near_mask: Any, far: Any, far_mask: Any) -> Any:
        def mean(values: Any, mask: Any) -> Any:
            return (values * mask[..., None]).sum(-2) / mask.sum(-1, keepdim=True).clamp(min=1)

        batch, count = near.shape[:2]
        far, far_mask = far.reshape(batch, count, -1, far.shape[-1]), far_mask.reshape(batch, count, -1)
        inner = torch.relu(self.first(torch.cat([near, mean(far, far_mask)], -1)))
        outer = torch.relu(self.first(torch.cat([own, mean(near, near_mask)], -1)))
        return self.second(torch.cat([outer, mean(inner, near_mask)], -1))


def trainer(params: dict[str, Any]) -> ModelTrainer:
    net = GraphSAGE(34, params["hidden"])
    return ModelTrainer(
        model=net,
        optimizer=torch.optim.Adam(net.parameters(), lr=0.05),
        loss=torch.nn.CrossEntropyLoss(),
        metrics=["accuracy"],
        batch_size=8,
    )


def test_a_graph_network_learns_the_clubs(
    spark: SparkSession, edges: DataFrame, nodes: DataFrame, tmp_path: Path
) -> None:
    known = nodes.where("id < 34").selectExpr("id", "club", "transform(sequence(0, 33), n -> float(n = id)) AS onehot")
    neighbours = Neighbours(edges, fanouts=FANOUTS)
    rows = neighbours.transform(known, id_column="id", feature_columns=["onehot"])
    selection = GridSearch(
        backend=SparkBackend(spark, num_workers=2, threads=1),
        store=Store.from_uri(str(tmp_path)),
        trainer_fn=trainer,
        search_space={"hidden": [8]},
        num_epochs=20,
        feature_columns=neighbours.columns,
        label_columns=["club"],
        metric="accuracy",
        progress=False,
    ).fit(rows)
    assert selection.best.history[-1]["loss"] < 0.8 * selection.best.history[0]["loss"]
    predicted = selection.best_model.transform(rows)
    assert predicted.where("prediction = club").count() >= 26


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fanouts": ()}, r"fanouts must be a list of numbers of neighbours, got \(\)"),
        ({"fanouts": (3, 0)}, "fanouts must be a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_wrong_arguments(edges: DataFrame, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        Neighbours(edges, **settings)


def test_wrong_columns(edges: DataFrame, nodes: DataFrame) -> None:
    with pytest.raises(ColumnError, match=r"target must be a column of edges \(source, target\), got 'to'"):
        Neighbours(edges, target="to")
    with pytest.raises(ColumnError, match="source must be a column of integers or strings, got double"):
        Neighbours(edges.selectExpr("double(source) AS source", "target"))
    neighbours = Neighbours(edges)
    with pytest.raises(ColumnError, match="id_column of nodes must be of the type of the edges' ids, integer, got str"):
        neighbours.transform(nodes.selectExpr("string(id) AS id", "number"), id_column="id", feature_columns=["number"])
    with pytest.raises(ColumnError, match=r"feature_columns must be columns of nodes .*, got 'nmber'; did you mean"):
        neighbours.transform(nodes, id_column="id", feature_columns=["nmber"])
    named = nodes.withColumnRenamed("club", "nodes_1")
    with pytest.raises(ColumnError, match="nodes_1"):
        neighbours.transform(named, id_column="id", feature_columns=["number"])
