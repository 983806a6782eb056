"""Neighbourhoods of fixed shape in a graph, sampled from a DataFrame of edges."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegralType, StringType

from cerebro_spark.errors import ColumnError, InvalidArgumentError
from optimizer.arguments import whole
from optimizer.errors import nearest
from udfs.driver import check_absent, is_numeric, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

__all__ = ["Neighbours"]

_IDS = (IntegralType, StringType)


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Sampler of neighbourhoods, whose tensors a graph network such as GraphSAGE reads.

    Each node gets ``fanouts[0]`` of its neighbours, each of these ``fanouts[1]`` of its own, and so on, drawn without
    replacement. A node with fewer neighbours repeats them, and one without any repeats itself; a mask has 0 for the
    repetitions. So all tensors have one shape, and a search trains on the rows like on any others. The draws depend on
    the seed, the node and its neighbours alone, not on the partitioning of the DataFrames.

    Parameters
    ----------
    edges : DataFrame
        Edges between nodes. Repeated edges count once, and edges of a node with itself do not count.
    fanouts : sequence of int
        Number of neighbours to draw at each distance. Default ``(10, 5)``: 10 neighbours, and 50 of their neighbours.
    source, target : str
        Columns of ``edges`` with the ids of the nodes. Default ``"source"`` and ``"target"``.
    directed : bool
        Whether only the targets of a node's edges are its neighbours. By default an edge counts in both directions.
    seed : int
        Seed of the draws. Default 0.

    Raises
    ------
    InvalidArgumentError
        A value is not allowed.
    ColumnError
        ``edges`` lacks a column, or its ids are neither integers nor strings.

    References
    ----------
    Hamilton, Ying, Leskovec: Inductive Representation Learning on Large Graphs, NeurIPS 2017.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.getActiveSession()
    >>> edges = spark.createDataFrame([(0, 1), (0, 2)], "source int, target int")
    >>> nodes = spark.createDataFrame([(0, 5.0), (1, 6.0), (2, 7.0)], "id int, age double")
    >>> neighbours = Neighbours(edges, fanouts=(2,))
    >>> neighbours.columns
    ['nodes_0', 'nodes_1', 'mask_1']
    >>> rows = neighbours.transform(nodes, id_column="id", feature_columns=["age"]).orderBy("id").collect()
    >>> sorted(rows[0]["nodes_1"]), rows[0]["mask_1"]
    ([[6.0], [7.0]], [1.0, 1.0])
    >>> rows[1]["nodes_1"], rows[1]["mask_1"]
    ([[5.0], [5.0]], [1.0, 0.0])
    """

    edges: DataFrame
    fanouts: Sequence[int] = (10, 5)
    source: str = "source"
    target: str = "target"
    directed: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.fanouts, (str, int)) or not list(self.fanouts):
            raise InvalidArgumentError(f"fanouts must be a list of numbers of neighbours, got {self.fanouts!r}.")
        object.__setattr__(self, "fanouts", tuple(whole("fanouts", fanout) for fanout in self.fanouts))
        whole("seed", self.seed, 0)
        for argument in ("source", "target"):
            _check_id(self.edges, getattr(self, argument), argument, "edges")
        if _family(self.edges, self.source) != _family(self.edges, self.target):
            raise ColumnError(
                f"target must be of the type of source, got {_family(self.edges, self.target)} and "
                f"{_family(self.edges, self.source)}. Cast one of them"
            )

    @property
    def columns(self) -> list[str]:
        """Columns that :meth:`transform` adds: the ``feature_columns`` of a search.

        ``nodes_0`` has the features of the node, of shape ``(features,)``. For distance ``h``, ``nodes_h`` has those of
        the drawn nodes, of shape ``(fanouts[0] * ... * fanouts[h - 1], features)``, where the neighbours of drawn node
        ``i`` are rows ``i * fanouts[h - 1]`` to ``(i + 1) * fanouts[h - 1]``; ``mask_h`` has 1 for each that counts.
        """
        names = [(f"nodes_{hop}", f"mask_{hop}") for hop in range(1, len(self.fanouts) + 1)]
        return ["nodes_0", *(name for pair in names for name in pair)]

    def transform(
        self, nodes: DataFrame, *, id_column: str, feature_columns: Sequence[str], seeds: DataFrame | None = None
    ) -> DataFrame:
        """Add the tensors of each node's neighbourhood, lazily.

        Parameters
        ----------
        nodes : DataFrame
            All nodes of the graph, with their features. Ids are unique. Edges of other nodes are ignored.
        id_column : str
            Column with the id of a node.
        feature_columns : sequence of str
            Columns of numbers, vectors or arrays, which are joined to the features of a node.
        seeds : DataFrame, optional
            Nodes to return, with ``id_column`` and other columns such as labels. By default all nodes.

        Returns
        -------
        DataFrame
            The columns of ``seeds`` and :attr:`columns`.

        Raises
        ------
        ColumnError
            A column is missing, there already, or of a type that does not fit.
        """
        seeds = nodes if seeds is None else seeds
        for frame, name in ((nodes, "nodes"), (seeds, "seeds")):
            _check_id(frame, id_column, "id_column", name)
            if _family(frame, id_column) != _family(self.edges, self.source):
                raise ColumnError(
                    f"id_column of {name} must be of the type of the edges' ids, {_family(self.edges, self.source)}, "
                    f"got {_family(frame, id_column)}. Cast it"
                )
        check_absent(seeds, [*self.columns, "root"], "rename the column of seeds")
        features = F.concat(*(_numbers(nodes, name) for name in _listed(feature_columns)))
        known = nodes.select(F.col(quoted(id_column)).alias("node"), features.alias("features"))
        adjacency = self._adjacency(known)
        result = seeds.withColumn("root", F.col(quoted(id_column)))
        reached = result.select("root").distinct()
        reached = reached.select("root", F.col("root").alias("node"), F.lit(0).alias("slot"), F.lit(1.0).alias("mask"))
        for hop in range(len(self.fanouts) + 1):
            if hop:
                reached = self._drawn(reached, adjacency, hop)
            tensors = _collected(reached.join(known, "node"), hop, prod(self.fanouts[:hop]))
            result = result.join(tensors, "root", "left")
        return result.drop("root")

    def _adjacency(self, known: DataFrame) -> DataFrame:
        """Return the neighbours of each node, as arrays of known nodes."""
        ends = [F.col(quoted(self.source)), F.col(quoted(self.target))]
        pairs = self.edges.select(ends[0].alias("node"), ends[1].alias("other"))
        if not self.directed:
            pairs = pairs.union(self.edges.select(ends[1].alias("node"), ends[0].alias("other")))
        pairs = pairs.where("node != other").distinct().join(known.select(F.col("node").alias("other")), "other")
        return pairs.groupBy("node").agg(F.collect_list("other").alias("others"))

    def _drawn(self, reached: DataFrame, adjacency: DataFrame, hop: int) -> DataFrame:
        """Draw the neighbours of the nodes that were drawn before."""
        fanout = self.fanouts[hop - 1]
        joined = reached.join(adjacency, "node", "left")
        start = F.lit(self.seed).cast("bigint")

        def keyed(other: Column) -> Column:
            key = F.xxhash64(start, F.col("root"), F.lit(hop), F.col("slot"), other)
            return F.struct(key.alias("key"), other.alias("other"))

        order = F.transform(F.array_sort(F.transform("others", keyed)), lambda pair: pair["other"])
        count = F.coalesce(F.size("others"), F.lit(0))
        drawn = joined.select("root", "node", "slot", "mask", order.alias("order"), count.alias("count"))
        drawn = drawn.withColumn("turn", F.explode(F.sequence(F.lit(0), F.lit(fanout - 1))))
        place = (F.col("turn") % F.greatest("count", F.lit(1)) + 1).cast("int")
        other = F.when(F.col("count") > 0, F.element_at("order", place))
        return drawn.select(
            "root",
            F.coalesce(other, F.col("node")).alias("node"),
            (F.col("slot") * fanout + F.col("turn")).alias("slot"),
            F.when(F.col("turn") < F.col("count"), F.col("mask")).otherwise(0.0).alias("mask"),
        )


def _collected(drawn: DataFrame, hop: int, size: int) -> DataFrame:
    """Collect the features and the mask of a distance, in the order of the slots."""
    if not hop:
        return drawn.select("root", F.col("features").alias("nodes_0"))
    slots = F.array_sort(F.collect_list(F.struct("slot", "features", "mask")))
    rows = drawn.groupBy("root").agg(slots.alias("slots")).where(F.size("slots") == size)
    features = F.transform("slots", lambda slot: slot["features"])
    mask = F.transform("slots", lambda slot: slot["mask"].cast("float"))
    return rows.select("root", features.alias(f"nodes_{hop}"), mask.alias(f"mask_{hop}"))


def _check_id(frame: DataFrame, name: str, argument: str, table: str) -> None:
    if name not in frame.columns:
        raise ColumnError(
            f"{argument} must be a column of {table} ({', '.join(frame.columns)}), got {name!r}"
            f"{nearest(name, frame.columns)}"
        )
    kind = frame.schema[name].dataType
    if not isinstance(kind, _IDS):
        raise ColumnError(f"{argument} must be a column of integers or strings, got {kind.simpleString()}. Cast it")


def _family(frame: DataFrame, name: str) -> str:
    return "string" if isinstance(frame.schema[name].dataType, StringType) else "integer"


def _listed(names: Sequence[str]) -> list[str]:
    if isinstance(names, str) or not list(names):
        raise InvalidArgumentError(f"feature_columns must be a list of columns, got {names!r}.")
    return list(names)


def _numbers(nodes: DataFrame, name: str) -> Column:
    """Return a column's numbers as an array."""
    if name not in nodes.columns:
        raise ColumnError(
            f"feature_columns must be columns of nodes ({', '.join(nodes.columns)}), got {name!r}"
            f"{nearest(name, nodes.columns)}"
        )
    kind, column = nodes.schema[name].dataType, F.col(quoted(name))
    if isinstance(kind, VectorUDT):
        return vector_to_array(column, "float32")
    if is_numeric(kind):
        return F.array(column.cast("float"))
    if isinstance(kind, ArrayType) and is_numeric(kind.elementType):
        return column.cast("array<float>")
    raise ColumnError(
        f"feature_columns must be numbers, vectors or arrays of numbers, got {name!r} of {kind.simpleString()}. Cast it"
    )
