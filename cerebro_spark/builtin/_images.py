"""Built-in models for images: networks of the roster with a classifier for the user's classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType

from cerebro_spark.builtin._networks import classifier_trainer, everything_learns
from udfs import roster
from udfs.arrow import RowMap, RowPolicy
from udfs.driver import map_rows
from udfs.images import FileContents

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from torch import nn

    from udfs.handlers import ModelTrainer

__all__ = ["ImageTrainer", "read_files"]


@dataclass(frozen=True)
class ImageTrainer:
    """Function from a configuration to a network for images with Adam: a value that Spark sends to its workers."""

    network: Any
    training: str
    weights: str | None
    classes: int

    def __call__(self, params: dict[str, Any]) -> ModelTrainer:
        """Build the model of a configuration."""
        from torch.optim import Adam

        from cerebro_spark.builtin._normalized import Normalized  # imports torch

        card = roster.of(self.network)
        net = roster.load(card, self.weights)
        preprocessing: Any = card.preprocessing  # of images
        model = Normalized(self._classifier(card, net, params), preprocessing.mean, preprocessing.std)
        return classifier_trainer(model, Adam, params, weight_decay=0.0)

    def _classifier(self, card: roster.ModelCard, net: nn.Module, params: dict[str, Any]) -> Any:
        from torch import nn

        from cerebro_spark.schemes import ImageHead, feature_transfer, fine_tune

        last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
        head = nn.Linear(last.in_features, self.classes)
        if self.training == "full":
            return everything_learns(fine_tune(net, 1, head))
        blocks = params.get("trainable_blocks", 1)
        if blocks:
            return fine_tune(net, blocks, head, blocks=card.layers)
        return feature_transfer(net, card.layers[-2], head=ImageHead(last.in_features, self.classes))


def read_files(df: DataFrame, column: str) -> DataFrame:
    """Replace a column of paths of image files by their contents; leave a column of images as it is.

    A file that cannot be read is a null, which a search counts and leaves out.
    """
    if not isinstance(df.schema[column].dataType, StringType):
        return df
    kept = tuple(name for name in df.columns if name != column)
    return map_rows(df, RowMap(FileContents(column), kept, RowPolicy("null")))
