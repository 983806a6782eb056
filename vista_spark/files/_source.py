"""Data of a transfer: two tables, one table with images, or a folder for each class."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.ml.feature import OneHotEncoder, StringIndexer
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType, StringType

from udfs.driver import check_absent, check_present, is_table, quoted, read_table, text_numbers
from vista_spark.errors import ColumnError, InvalidArgumentError, LabelError
from vista_spark.files._tables import numeric_columns, read_class_folders, read_images
from vista_spark.files._unused import text_feature_error, unused_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.ml import Transformer
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CLASS_LABEL", "Loaded", "Source"]

CLASS_LABEL = "label"
"""The label's column of a folder for each class, unless another name is given."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The tables of a transfer in Spark.

    Attributes
    ----------
    structured, images : DataFrame
        Tables in the form that :meth:`vista_spark.FeatureTransfer.run` expects.
    features : tuple of str
        Names of the structured features; empty if there are only images.
    target : str
        Column to learn.
    words : tuple of str
        Categories that the numbers of the target stand for; empty if the label is numeric.
    stages : tuple of pyspark.ml.Transformer
        Stages that compute the features of categories, for new rows as well.
    notes : tuple of str
        Columns that are read in another way than they are written, and columns that are not used, with the reasons.
    """

    structured: DataFrame
    images: DataFrame
    features: tuple[str, ...]
    target: str
    words: tuple[str, ...] = ()
    stages: tuple[Transformer, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """Location of the images, the labels and the structured features of a transfer.

    Parameters
    ----------
    images : str, optional
        Folder of image files, or a table of images or texts; without `table`, one folder per class or a table with the
        label. The id of an image file is its name, or the path below the folder.
    table : str, optional
        Structured data: .csv or .tsv with a header, .json, .orc, Parquet, or another format of Spark. Without `images`
        it also holds the column `image`.
    on : str
        Column of the id. If one table has no such column and its images are paths, the paths are the ids.
    label : str, optional
        Column of the label; needed unless the folders are the classes. Texts are indexed.
    image : str
        Column of images (bytes or paths) or texts of a table.
    features : sequence of str, optional
        Structured columns; every numeric one by default.
    categories : sequence of str, optional
        Structured columns of categories, which are indexed and one-hot encoded; a label among them is indexed.
    table_format : str, optional
        Format of the table: csv, json, orc, parquet, delta, iceberg, ..., or catalog for a table's name; by its ending
        by default. See :func:`udfs.driver.read_table`.

    Raises
    ------
    InvalidArgumentError
        Neither images nor a table is named, or no label.
    """

    images: str | None = None
    table: str | None = None
    on: str = "id"
    label: str | None = None
    image: str = "image"
    features: Sequence[str] | None = None
    categories: Sequence[str] = field(default=())
    table_format: str | None = None

    def __post_init__(self) -> None:
        if self.images is None and self.table is None:
            raise InvalidArgumentError(
                "--images or --table must be given: name at least one. A folder of class folders is --images."
            )
        if self.label is None and not self.has_class_folders:
            raise InvalidArgumentError(
                "--label must name the column to learn, unless --images is a folder for each class."
            )
        if self.on == self.image:
            raise InvalidArgumentError(
                f"--on and --image must differ, got {self.on!r} for both. Leave out --on: the paths of one table are "
                "its ids."
            )
        if self.has_class_folders and (self.features or self.categories):
            raise InvalidArgumentError("--features and --categories must be columns of a table: name it with --table.")

    @property
    def only_table(self) -> str | None:
        """The one table that has everything."""
        if self.images is None:
            return self.table
        return self.images if self.table is None and is_table(self.images, self.table_format) else None

    @property
    def has_class_folders(self) -> bool:
        """True if the label of an image is the name of its folder."""
        return self.table is None and self.only_table is None

    @property
    def learned(self) -> str:
        """The label's column."""
        return self.label or CLASS_LABEL

    def load(self, spark: SparkSession, *, classification: bool) -> Loaded:
        """Read the tables with Spark, and index what is to be indexed.

        Parameters
        ----------
        classification : bool
            Whether the label is a class; a label of words for a regression is refused.

        Raises
        ------
        ColumnError
            A column is missing, or is no number and not among the categories.
        LabelError
            Words are to be learned as numbers.
        """
        notes: list[str] = []
        structured, images = self._tables(spark, notes.append)
        categories = [name for name in self.categories if name != self.learned]
        numbers = self._numbers(structured, categories)
        if self.features is None:
            notes += self._unused(structured, [*numbers, *categories])
        structured, stages, encoded = _encoded(structured, categories)
        structured, target, words = self._indexed(structured, classification=classification)
        return Loaded(structured, images, (*numbers, *encoded), target, words, stages, tuple(notes))

    def _unused(self, structured: DataFrame, used: Sequence[str]) -> list[str]:
        left = [field for field in structured.schema if field.name not in (self.on, self.learned, *used)]
        texts = [field.name for field in left if isinstance(field.dataType, StringType)]
        kinds = {field.name: field.dataType.simpleString() for field in left if field.name not in texts}
        return unused_columns(text_numbers(structured, texts), kinds)

    def _tables(self, spark: SparkSession, note: Callable[[str], object]) -> tuple[DataFrame, DataFrame]:
        if self.has_class_folders:
            assert self.images is not None  # or it would have no class folders
            both = read_class_folders(spark, self.images, self.on, self.learned, self.image)
            return both.select(self.on, self.learned), both.select(self.on, self.image)
        if self.only_table is not None:
            option = "--table" if self.images is None else "--images"
            both = read_table(spark, self.only_table, self.table_format, option, on_note=note)
            check_present(both, [self.image, self.learned, *(self.features or ()), *self.categories], option)
            if self.on not in both.columns and isinstance(both.schema[self.image].dataType, StringType):
                both = both.withColumn(self.on, F.col(quoted(self.image)))
            check_present(both, [self.on], option)
            return both.drop(self.image), both.select(quoted(self.on), quoted(self.image))
        assert self.table is not None  # as there are class folders or one table without it
        assert self.images is not None
        structured = read_table(spark, self.table, self.table_format, on_note=note)
        check_present(structured, [self.on, self.learned, *(self.features or ()), *self.categories], "--table")
        return structured, read_images(spark, self.images, self.on, self.image, structured)

    def _numbers(self, structured: DataFrame, categories: Sequence[str]) -> list[str]:
        without = (self.on, self.learned, *categories)
        if self.features is None:
            return numeric_columns(structured, without, at_least=0)
        named = [name for name in self.features if name not in categories]
        texts = [name for name in named if isinstance(structured.schema[name].dataType, StringType)]
        for counts in text_numbers(structured, texts):
            raise text_feature_error(counts)
        return named

    def _indexed(self, table: DataFrame, *, classification: bool) -> tuple[DataFrame, str, tuple[str, ...]]:
        """Number the label's values, where they are not numbers or are to be categories."""
        kind, label = table.schema[self.learned].dataType, self.learned
        if isinstance(kind, (NumericType, BooleanType)) and label not in self.categories:
            return table, label, ()
        if not classification:
            texts = text_numbers(table, [label] if isinstance(kind, StringType) else [])
            raise LabelError(
                f"--label must be a number for a regression, got {label!r} of type {kind.simpleString()}"
                f"{''.join(f', {each.reason}' for each in texts)}. Give a classifier."
            )
        target, text = f"{label}_index", f"{label}_text"
        check_absent(table, [target, text], "it is the name of the label's numbers: rename it")
        table = table.withColumn(text, F.col(quoted(label)).cast("string"))
        # A row without a label stays, so that it is counted among those that are left out.
        indexer = StringIndexer(inputCol=text, outputCol=target, handleInvalid="keep").fit(table)
        numbered = indexer.transform(table).withColumn(target, F.when(F.col(quoted(text)).isNotNull(), F.col(target)))
        return numbered.drop(text), target, tuple(indexer.labels)


def _encoded(table: DataFrame, names: Sequence[str]) -> tuple[DataFrame, tuple[Transformer, ...], tuple[str, ...]]:
    """Index categories and one-hot encode them; of a category that training did not see, all numbers are zero."""
    stages: list[Transformer] = []
    columns = []
    for name in names:
        kind = table.schema[name].dataType
        if isinstance(kind, BooleanType):  # two categories are one number
            columns.append(name)
            continue
        if not isinstance(kind, (StringType, NumericType)):
            raise ColumnError(
                f"--categories must be texts, numbers or booleans, got {name!r} of type {kind.simpleString()}."
            )
        index, encoded = f"{name}_category", f"{name}_onehot"
        check_absent(table, [index, encoded], "it is the name of a category's numbers: rename it")
        indexer = StringIndexer(inputCol=name, outputCol=index, handleInvalid="keep").fit(table)
        table = indexer.transform(table)
        encoder = OneHotEncoder(inputCol=index, outputCol=encoded).fit(table)
        table = encoder.transform(table)
        stages += [indexer, encoder]
        columns.append(encoded)
    return table, tuple(stages), tuple(columns)
