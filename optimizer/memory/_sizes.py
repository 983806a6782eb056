"""Sizes of the intermediate tables (Vista, equations 5 and 6; size estimate C.1), and their partitions."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.memory._constants import Constants
    from optimizer.memory._logical_names import Logical
    from optimizer.memory._spec import LayerSize, TransferWorkload

__all__ = ["Table", "Tables", "divided", "scaled", "size_tables", "structured_table_bytes"]

# Spark's UnsafeRow ("Tungsten"): a word for a fixed-size field; for a variable one, a word of offset and length.
_WORD = 8
_WORD_BITS = 64


def divided(number: int, by: int) -> int:
    """Divide and round up."""
    return -(-number // by)


def scaled(number: int, factor: float) -> int:
    """Multiply and round up; 1.2 means 12/10 and not the float next to it."""
    return math.ceil(number * Fraction(str(factor)))


@dataclass(frozen=True, slots=True)
class Table:
    """Intermediate table.

    ``total_bytes`` are over the whole cluster (``|T_i|``).
    """

    name: str
    total_bytes: int
    record_bytes: int


@dataclass(frozen=True, slots=True)
class Tables:
    """Intermediate tables of one logical plan.

    ``tables`` are in order of execution; the first holds the images. ``structured_bytes`` is ``|T_str|``,
    ``single_bytes`` the largest table (equation 5), and ``double_bytes`` the peak that is cached at once: two
    successive tables (equation 6), or one table and the copy that the downstream routine makes of it. The structured
    part that two tables share counts once.
    """

    structured_bytes: int
    tables: tuple[Table, ...]
    single_bytes: int
    double_bytes: int
    rows: int
    record_bytes: int

    def partition_bytes(self, partitions: int, *, whole_rows: bool) -> int:
        """Compute the bytes of the largest partition: ``ceil(s_single / n_p)``, or more if records stay whole."""
        mean = divided(self.single_bytes, partitions)
        return max(mean, divided(self.rows, partitions) * self.record_bytes) if whole_rows else mean

    def partitions(self, slots: int, constants: Constants) -> int | None:
        """Find the smallest multiple of the task slots with which every partition is below ``p_max``.

        This is NumPartitions of Algorithm 1 with the strict bound of equation 14: the two differ where the tables fill
        a whole number of partitions exactly. Return ``None`` if one record alone is too large for a partition.
        """
        most = constants.partition_bytes - 1
        if self.record_bytes > most:
            return None
        least = divided(self.single_bytes, most)
        if constants.whole_rows:
            least = max(least, divided(self.rows, most // self.record_bytes))
        return max(1, divided(least, slots)) * slots


def structured_table_bytes(rows: int, features: int) -> int:
    """Compute ``|T_str|``: an id and numbers in Spark's internal record format (Figure C.2).

    Returns
    -------
    int
        Bytes: one word per field, and one null bit per field rounded up to whole words.

    Examples
    --------
    >>> structured_table_bytes(rows=20_000, features=130)
    21440000
    """
    nullable = features + 1
    return rows * _WORD * (divided(nullable, _WORD_BITS) + nullable)


def size_tables(workload: TransferWorkload, logical: Logical, constants: Constants) -> Tables:
    """Estimate the intermediate tables of a logical plan, with the join before inference.

    Equation C.1 per table: ``alpha_1 * rows * (8 + 8 + bytes of its tensors) + |T_str|``, an upper bound for the
    deserialized format. The first table holds the images. After it comes one per stage with the tensors that the next
    stage reads (staged), one per layer, computed from the images (lazy) or from the lowest layer's table, which carries
    the tensors that they read (pre-materialised), or one table of all layers (eager).

    Examples
    --------
    >>> from optimizer.memory import PAPER, LayerSize, ModelFootprint, TransferWorkload
    >>> work = TransferWorkload(
    ...     1000, 10, (LayerSize("fc7", 400), LayerSize("fc8", 40)), 50, ModelFootprint(1, 1), image_tensor_bytes=3000
    ... )
    >>> sizes = size_tables(work, "staged", PAPER)
    >>> [(table.name, table.total_bytes) for table in sizes.tables]
    [('images', 3715200), ('fc7', 595200), ('fc8', 163200)]
    >>> sizes.single_bytes, sizes.double_bytes
    (3715200, 4214400)
    """
    rows = workload.structured_rows
    structured = structured_table_bytes(rows, workload.structured_features)

    def table(name: str, *tensors: int) -> Table:
        # The id, and a header of offset and length for each variable-size field.
        fields = _WORD + sum(_WORD + size for size in tensors)
        record = scaled(fields, constants.size_factor) + structured // rows
        return Table(name, scaled(rows * fields, constants.size_factor) + structured, record)

    image = workload.image_tensor_bytes if constants.image_tensor_materialised else workload.image_bytes
    images = table("images", image)
    layer_tables = [
        table(
            ", ".join(layer.name for layer in group),
            *(layer.tensor_bytes for layer in group),
            *(layer.carried_bytes for layer in group if layer.carried_bytes and _carries(logical)),
        )
        for group in _grouped(workload, logical)
    ]
    cached = _cached(images, layer_tables, logical, images_first=constants.image_tensor_materialised)
    double = max(sum(table.total_bytes for table in group) - (len(group) - 1) * structured for group in cached)
    if constants.training_copy_bytes:
        widest = [max(layer.features for layer in group) for group in _grouped(workload, logical)]
        # Later passes read this table, so it stays cached while the downstream model is trained.
        base = images if logical.startswith("lazy") else layer_tables[0] if logical == "pre-materialised" else None
        for trained, features in zip(layer_tables, widest, strict=True):
            base_bytes = base.total_bytes - structured if base is not None and base is not trained else 0
            columns = workload.structured_features + features
            double = max(double, base_bytes + trained.total_bytes + rows * constants.training_copy_bytes * columns)
    tables = (images, *layer_tables)
    return Tables(
        structured,
        tables,
        max(table.total_bytes for table in tables),
        double,
        rows,
        max(table.record_bytes for table in tables),
    )


def _carries(logical: Logical) -> bool:
    return logical.startswith(("staged", "pre"))


def _grouped(workload: TransferWorkload, logical: Logical) -> list[list[LayerSize]]:
    """Group the layers by table."""
    if logical.startswith("eager"):
        return [list(workload.layers)]
    groups: list[list[LayerSize]] = []
    for layer in workload.layers:
        if groups and layer.same_pass and logical.startswith("staged"):
            groups[-1].append(layer)
        else:
            groups.append([layer])
    return groups


def _cached(images: Table, layers: list[Table], logical: Logical, *, images_first: bool) -> list[tuple[Table, ...]]:
    """List the tables cached at the same time; ``images_first`` if the images are the first intermediate table."""
    if logical.startswith("lazy"):
        return [(images, layer) for layer in layers]
    if logical == "pre-materialised":
        return [(layers[0],), *((layers[0], layer) for layer in layers[1:])]
    chain = [images, *layers] if images_first else layers
    return list(itertools.pairwise(chain)) or [(chain[0],)]
