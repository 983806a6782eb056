"""Rank records without labels by how much their labels would teach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's users know

from cerebro_spark.errors import InvalidArgumentError, NoModelError
from optimizer.errors import nearest
from udfs.driver import quoted
from udfs.inference import UNCERTAINTIES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from cerebro_spark.tune import Selection

__all__ = ["check_how", "ranked"]

_HOW = (*UNCERTAINTIES, "random")


def check_how(how: str) -> None:
    """Raise ``InvalidArgumentError`` for a way to rank that there is not."""
    if how not in _HOW:
        raise InvalidArgumentError(f"how={how!r}{nearest(how, _HOW)}; one of: {', '.join(_HOW)}")


def ranked(pool: DataFrame, how: str, *, selection: Selection | None, id_column: str, seed: int) -> DataFrame:
    """Add a column ``score`` and put the largest first; see :meth:`Adaptation.score`."""
    check_how(how)
    if how == "random":
        lot = F.xxhash64(F.lit(seed).cast("bigint"), F.col(quoted(id_column)).cast("string"))
        # Its 64 bits as a share of one.
        scored = pool.withColumn("score", lot / F.lit(2.0**64) + F.lit(0.5))
    elif selection is None:
        raise NoModelError("there is no model to score with: call fit(batch) or resume() first")
    else:
        scored = selection.best_model.uncertainty(pool, how)
    return scored.orderBy(F.col("score").desc_nulls_last())
