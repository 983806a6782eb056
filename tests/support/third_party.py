"""A Spark ML stage as another project writes it: plain pyspark, and the columns' checks that this one offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml import Transformer
from pyspark.ml.functions import array_to_vector
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasInputCol, HasOutputCol
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable
from pyspark.sql import functions as F

from udfs.driver import check_absent, check_present
from udfs.testing import StageSample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LENGTHS", "Lengths", "words"]


class Lengths(Transformer, HasInputCol, HasOutputCol, DefaultParamsReadable, DefaultParamsWritable):
    """Counts a text's characters, and words of at least so many letters."""

    letters = Param(Params._dummy(), "letters", "Letters of the shortest word that counts.", TypeConverters.toInt)

    @keyword_only
    def __init__(self, *, inputCol: str = "text", outputCol: str = "lengths", letters: int = 1) -> None:
        super().__init__()
        self._setDefault(inputCol="text", outputCol="lengths", letters=1)
        self.setParams(**self._input_kwargs)

    @keyword_only
    def setParams(self, *, inputCol: str = "text", outputCol: str = "lengths", letters: int = 1) -> Lengths:
        return self._set(**self._input_kwargs)

    def setInputCol(self, value: str) -> Lengths:
        return self._set(inputCol=value)

    def setOutputCol(self, value: str) -> Lengths:
        return self._set(outputCol=value)

    def setLetters(self, value: int) -> Lengths:
        return self._set(letters=value)

    def getLetters(self) -> int:
        return self.getOrDefault(self.letters)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        column, added = self.getInputCol(), self.getOutputCol()
        check_present(dataset, [column], "Lengths")
        check_absent(dataset, [added], "choose another outputCol")
        return dataset.withColumn(added, self.counted(F.col(column)))

    def counted(self, text: Any) -> Any:
        long = F.size(F.filter(F.split(text, " "), lambda word: F.length(word) >= self.getLetters()))
        counts = array_to_vector(F.array(F.length(text).cast("double"), long.cast("double")))
        return F.when(text.isNotNull(), counts)


def words(spark: SparkSession, count: int) -> DataFrame:
    rows = [(number, float(number % 2), "word" * (number % 2 * 9) + " a" * (number + 1)) for number in range(count)]
    return spark.createDataFrame(rows, "id long, label double, text string")


LENGTHS = StageSample(
    "Lengths",
    make=lambda: Lengths(letters=2),
    frame=words,
    reads="text",
    reads_param="inputCol",
    adds=("lengths",),
    renamed={"outputCol": "a.0 `b`"},
    feature="lengths",
    tuned=("letters", [1, 2]),
    defaults={"inputCol": "text", "outputCol": "lengths", "letters": 1},
    values={"inputCol": "review", "outputCol": "counts", "letters": 4},
    refused={"letters": ("two", "letters|int")},
)
