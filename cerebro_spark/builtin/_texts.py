"""Built-in models for texts: encoders of BERT's kind with a classifier of the mean of the tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType

from cerebro_spark.builtin._networks import classifier_trainer, everything_learns
from cerebro_spark.data import tokenize
from cerebro_spark.errors import ColumnError, InvalidArgumentError
from udfs import roster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from udfs.handlers import ModelTrainer

__all__ = ["TextTrainer", "text_card", "tokenized"]


@dataclass(frozen=True)
class TextTrainer:
    """Function from a configuration to an encoder of texts with AdamW: a value that Spark sends to its workers."""

    card: roster.ModelCard
    training: str
    classes: int

    def __call__(self, params: dict[str, Any]) -> ModelTrainer:
        """Build the model of a configuration."""
        from torch.optim import AdamW

        from cerebro_spark.schemes import SequenceHead, feature_transfer, fine_tune

        net = roster.load(self.card)
        head = SequenceHead(self.card.builder.hidden, self.classes)
        blocks = params.get("trainable_blocks", 1)
        if self.training == "full":
            model = everything_learns(fine_tune(net, 1, head))
        elif blocks:
            model = fine_tune(net, blocks, head)
        else:
            model = feature_transfer(net, self.card.layers[-1], head=head)
        return classifier_trainer(model, AdamW, params, weight_decay=0.01)


def text_card(
    name: str, sizes: Mapping[str, Any], weights: str | None, tokenizer: str | None, max_length: int
) -> roster.ModelCard:
    """Return the card of an encoder: that of a folder of ``transformers``, or one of the given sizes.

    Raises
    ------
    InvalidArgumentError
        The folder has another kind of network, or there is no tokenizer.
    """
    shape = roster.BertShape(**sizes)
    if weights is None or roster.is_model_file(weights):
        if tokenizer is None:
            raise InvalidArgumentError(
                f"tokenizer must be the path or URI of a tokenizer.json for {name!r} without a folder of weights, got "
                "none. Set it in the settings, or set weights to a folder that save_pretrained of transformers wrote"
            )
        return roster.text_card(name, shape, max_length, name, weights=weights, tokenizer=tokenizer)
    card = roster.from_pretrained(weights, name=name, max_length=max_length)
    builder = card.builder
    if not isinstance(builder, roster.BertShape) or bool(builder.segments) != bool(shape.segments):
        wanted = "BERT" if shape.segments else "DistilBERT"
        raise InvalidArgumentError(f"weights of {name!r} must be a folder with a {wanted}, got {weights!r}.")
    return card


def tokenized(df: DataFrame, column: str, card: roster.ModelCard) -> DataFrame:
    """Add the tokens of a column of texts. A null stays a null, which a search counts and leaves out.

    Raises
    ------
    ColumnError
        The column has no strings.
    """
    kind = df.schema[column].dataType
    if not isinstance(kind, StringType):
        raise ColumnError(f"feature_columns must name a column of strings, got {column!r} of {kind.simpleString()}.")
    reading: Any = card.preprocessing  # of texts
    return tokenize(df, reading.tokenizer, text_column=column, max_length=reading.max_length, errors="null")
