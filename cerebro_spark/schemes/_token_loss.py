"""The loss of a tagger in torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["token_loss"]


def token_loss(outputs: Tensor, labels: Tensor) -> Tensor:
    """Compute the mean cross-entropy of a batch's tagged tokens; for ``loss=`` of a ``ModelTrainer``.

    Tokens with a label below 0 have no tag and do not count, such as padding, special tokens and all but the first
    piece of a word, to which :func:`cerebro_spark.data.tokenize` assigns -100. A batch without tags has the loss 0. In
    Keras use ``keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-100)``.

    Parameters
    ----------
    outputs : Tensor of shape (N, tokens, classes)
        Scores before a softmax.
    labels : Tensor of shape (N, tokens)
        Indices of classes.

    Returns
    -------
    Tensor of shape ()
        Mean loss.

    Examples
    --------
    >>> import torch
    >>> scores, labels = torch.zeros(1, 3, 4), torch.tensor([[-100, 2, -100]])
    >>> round(float(token_loss(scores, labels)), 4)  # log 4
    1.3863
    """
    classes = labels.flatten().long()
    tagged = classes >= 0
    losses = functional.cross_entropy(outputs.flatten(0, -2), classes.clamp(min=0), reduction="none")
    return (losses * tagged).sum() / tagged.sum().clamp(min=1)
