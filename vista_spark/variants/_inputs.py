"""Checks of the arguments of a catalog, and the images that its tasks read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from udfs.driver import check_image, check_present, is_numeric, quoted
from udfs.variants import IMAGE, LABEL, TRAIN, VALID
from vista_spark.errors import ColumnError, EmptyInputError, InvalidArgumentError, LabelError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from udfs.images import Preprocessing
    from udfs.store import Store
    from vista_spark.network import Network

__all__ = ["LabelledTables", "only_preprocessing"]

_MOST_CLASSES = 10_000
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class LabelledTables:
    """Tables of images with labels, for training and for validation.

    Parameters
    ----------
    train, valid : DataFrame
        Tables with the same columns of images and labels.
    label, image : str
        Names of these columns.

    Raises
    ------
    ColumnError
        A column is missing, or its type is wrong.
    """

    train: DataFrame
    valid: DataFrame
    label: str
    image: str

    def __post_init__(self) -> None:
        for what, table in (("train", self.train), ("valid", self.valid)):
            check_present(table, [self.label], what)
            check_image(table, self.image, what)
            kind = table.schema[self.label].dataType
            if not is_numeric(kind) and not isinstance(kind, StringType):
                raise ColumnError(
                    f"column {self.label!r} of {what} must be a class, a string or a number, got {kind.simpleString()}."
                )

    def classes(self) -> tuple[str | float, ...]:
        """Return the sorted labels of the training table.

        Raises
        ------
        EmptyInputError
            A table is empty.
        LabelError
            A label is null, the training table has fewer than two classes or too many, or the validation table has
            classes that the training table lacks.
        """
        known = self._labels("train", self.train)
        if not 1 < len(known) <= _MOST_CLASSES:
            raise LabelError(
                f"column {self.label!r} of train must have 2 to {_MOST_CLASSES:,} classes, got {len(known):,}."
            )
        strange = sorted(set(self._labels("valid", self.valid)) - set(known), key=str)
        if strange:
            raise LabelError(
                f"column {self.label!r} of valid must have classes of train, got {strange[:_SHOWN]}. Split the rows so "
                "that each class is in both tables."
            )
        return known

    def write(self, classes: tuple[str | float, ...], store: Store) -> None:
        """Write both tables as Parquet, with the numbers of the classes."""
        for part, table in ((TRAIN, self.train), (VALID, self.valid)):
            column = table[quoted(self.label)]
            kind = table.schema[self.label].dataType
            labels = F.array(*(F.lit(label).cast(kind) for label in classes))
            number = (F.array_position(labels, column) - 1).cast("int")
            chosen = table.select(table[quoted(self.image)].alias(IMAGE), number.alias(LABEL))
            chosen.write.mode("overwrite").parquet(store.url(part))

    def _labels(self, what: str, table: DataFrame) -> tuple[str | float, ...]:
        rows = table.select(table[quoted(self.label)].alias(LABEL)).distinct().limit(_MOST_CLASSES + 2).collect()
        if not rows:
            raise EmptyInputError(f"{what} must have rows, got an empty DataFrame.")
        labels = [row[0] for row in rows]
        if any(label is None or label != label for label in labels):
            raise LabelError(f"column {self.label!r} of {what} must have no null or NaN, got some. Filter these rows.")
        return tuple(sorted(label if isinstance(label, str) else float(label) for label in labels))


def only_preprocessing(net: Network) -> Preprocessing:
    """Return the preprocessing of a torch network that reads one image.

    Raises
    ------
    InvalidArgumentError
        The network is of another kind.
    """
    card = net.card
    parts = getattr(net.reads.preprocessing, "parts", (net.reads.preprocessing,))
    if card.framework != "torch" or card.kind != "image" or len(parts) != 1:
        raise InvalidArgumentError(
            f"model must be a torch network that reads one image, got {card.name!r}, a {card.framework} network of "
            f"{len(parts)} {card.kind}s."
        )
    return cast("Preprocessing", parts[0])
