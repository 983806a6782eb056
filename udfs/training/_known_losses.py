"""Losses of the frameworks: their tasks, and the outputs that they take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from udfs.training._task import Encoding, Form

__all__ = ["KERAS_LOSSES", "TORCH_LOSSES", "LossFacts"]


@dataclass(frozen=True, slots=True)
class LossFacts:
    """Properties of a loss that decide the task.

    Parameters
    ----------
    name : str
        Name of the loss, for messages.
    family : {"classes", "pairs", "values", "custom", "unknown"}
        Labels that the loss takes: ``"classes"``, one class of several; ``"pairs"``, one of two classes, or several
        labels of a row; ``"values"``, the values of a regression; ``"custom"``, others, without metrics by name.
        Default ``"unknown"``: a loss that the user wrote.
    outputs : str, optional
        Form of the outputs that the loss takes, as in :class:`Task`. Default ``None``: unknown.
    labels : str, optional
        Encoding of the labels, if the loss takes only one. Default ``None``: the rows decide.
    ignored : int, optional
        Class number of the rows that the loss leaves out; metrics by name leave them out too. Default ``None``: no rows
        are left out.
    """

    name: str
    family: str = "unknown"
    outputs: Form | None = None
    labels: Encoding | None = None
    ignored: int | None = None


def _facts(family: str, outputs: Form | None, names: str, labels: Encoding | None = None) -> dict[str, LossFacts]:
    return {name: LossFacts(name, family, outputs, labels) for name in names.split()}


# By the names of modules and of the functions of torch.nn.functional.
TORCH_LOSSES: dict[str, LossFacts] = {
    **_facts("classes", "logits", "CrossEntropyLoss cross_entropy"),
    **_facts("classes", "log-probabilities", "NLLLoss nll_loss"),
    **_facts("classes", "log-probabilities", "KLDivLoss kl_div", "one-hot"),
    **_facts("classes", "margins", "MultiMarginLoss multi_margin_loss"),
    **_facts("pairs", "probabilities", "BCELoss binary_cross_entropy"),
    **_facts("pairs", "logits", "BCEWithLogitsLoss binary_cross_entropy_with_logits"),
    **_facts("pairs", "logits", "MultiLabelSoftMarginLoss multilabel_soft_margin_loss"),
    **_facts("pairs", "logits", "SoftMarginLoss soft_margin_loss", "-1/+1"),
    **_facts("values", "values", "MSELoss mse_loss L1Loss l1_loss SmoothL1Loss smooth_l1_loss HuberLoss huber_loss"),
    **_facts("values", "log-values", "PoissonNLLLoss poisson_nll_loss"),
    **_facts("custom", None, "HingeEmbeddingLoss hinge_embedding_loss MultiLabelMarginLoss multilabel_margin_loss"),
    **_facts("custom", None, "CTCLoss ctc_loss GaussianNLLLoss gaussian_nll_loss"),
}

# By the names of functions. With from_logits=True they take logits instead of probabilities.
KERAS_LOSSES: dict[str, LossFacts] = {
    **_facts("classes", "probabilities", "sparse_categorical_crossentropy categorical_generalized_cross_entropy"),
    **_facts("classes", "probabilities", "categorical_crossentropy categorical_focal_crossentropy", "one-hot"),
    **_facts("classes", "probabilities", "kl_divergence", "one-hot"),
    **_facts("classes", "margins", "categorical_hinge", "one-hot"),
    **_facts("pairs", "probabilities", "binary_crossentropy binary_focal_crossentropy dice tversky"),
    **_facts("pairs", "margins", "hinge squared_hinge"),
    **_facts("values", "values", "mean_squared_error mean_absolute_error mean_absolute_percentage_error"),
    **_facts("values", "values", "mean_squared_logarithmic_error huber log_cosh poisson"),
    **_facts("custom", None, "cosine_similarity ctc circle"),
}
