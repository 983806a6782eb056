"""Factories of attributors for an image, a tensor and a text."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from udfs.attribution import check_positive
from udfs.driver import hint_options, validate_arguments
from udfs.handlers import TensorSpec, framework, framework_of
from udfs.images import decode
from udfs.inference import TOKENIZER, Tokenization, open_tokenizer
from udfs.occlusion import Score
from udfs.weights import FOLDER_WEIGHTS
from vista_spark import roster
from vista_spark.attribution._attributed_input import AttributedInput
from vista_spark.attribution._attributor import Attributor
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import has_random_weights, warn_of_random_weights
from vista_spark.occlusion import (
    ScoreKeywords,
    as_image,
    as_inputs,
    check_explainable,
    color_fill,
    one_record,
    shown_image,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from udfs.handlers import TracedModel
    from vista_spark.roster import ModelCard

__all__ = ["image_attributor", "tensor_attributor", "text_attributor"]

_MASKS = ("[MASK]", "<mask>")


@hint_options(ScoreKeywords)
def image_attributor(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    patch_color: tuple[int, int, int] = (128, 128, 128),
    image_size: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    **keywords: Unpack[ScoreKeywords],
) -> Attributor:
    """Open a network of the roster for attributions of one image.

    Parameters
    ----------
    image, model, weights, image_size
        Image and network, as for :func:`vista_spark.explain_image`. The network may be of any framework.
    patch_color : tuple of 3 int
        Colour of the baseline ``"color"``, in RGB from 0 to 255. Default grey, (128, 128, 128).
    batch_size : int
        Images per batch. Default 32.
    seed : int
        Seed of random weights. Default 0.
    **keywords
        `target`, `output` and `head`: the score that is attributed, as in :class:`vista_spark.OcclusionOptions`.

    Returns
    -------
    Attributor
        Attribution methods for the image.

    Raises
    ------
    InvalidArgumentError
        The output or the colour is invalid, the score has no such target, or the model does not read images.
    udfs.images.ImageError
        The image cannot be read.
    udfs.weights.WeightsError
        The weights do not fit.

    Examples
    --------
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> attributor = image_attributor(picture, "squeezenet1_1", image_size=64)
    >>> grid = np.arange(16).reshape(4, 4).repeat(16, 0).repeat(16, 1)
    >>> attributor.ablation(groups=grid).values.shape
    (64, 64)
    """
    card = roster.of(model, image_size=image_size)
    check_explainable(card, ("naive",))
    preprocessing: Any = card.preprocessing
    if image_size is not None:
        preprocessing = preprocessing.with_size(image_size)
    fill = color_fill(patch_color, preprocessing)
    pixels = decode(as_image(image), preprocessing)
    warn_of_random_weights(card, weights, seed)
    network_framework = framework(card.framework)
    traced = network_framework.trace(roster.load(card, weights, seed=seed), list(preprocessing.inputs))
    (name,) = traced.graph.inputs
    source = AttributedInput(
        {name: pixels},
        name,
        channels=0 if preprocessing.layout == "NCHW" else 2,
        fill=fill,
        default="color",
        picture=shown_image(pixels, preprocessing),
        color=", ".join(map(str, patch_color)),
    )
    prepared = traced.prepare(network_framework.threads())
    attributor = _attributor(prepared, source, keywords, batch_size)
    return replace(attributor, has_random_weights=has_random_weights(card, weights))


@hint_options(ScoreKeywords)
def tensor_attributor(
    network: Any,
    inputs: NDArray[Any] | torch.Tensor | Sequence[NDArray[Any] | torch.Tensor],
    *,
    of: int = 0,
    channels: int | str | None = "auto",
    batch_size: int = 32,
    **keywords: Unpack[ScoreKeywords],
) -> Attributor:
    """Open any network for attributions of one tensor: a row of a table, a series, an image, a volume.

    Parameters
    ----------
    network : object
        Model of PyTorch, Keras or another registered framework, in inference mode.
    inputs : array or tensor, or a list of them
        Inputs in the order of the network's, without the axis of records.
    of : int
        Index of the input whose parts get the attribution. Default 0.
    channels : int, optional
        Axis of its channels; ``None`` for an input without channels. Default ``"auto"``: the first axis for PyTorch and
        the last for Keras, if the input has two axes or more.
    batch_size : int
        Records per batch. Default 32.
    **keywords
        `target`, `output` and `head`: the score that is attributed, as in :class:`vista_spark.OcclusionOptions`.

    Returns
    -------
    Attributor
        Attribution methods for the tensor.

    Raises
    ------
    InvalidArgumentError
        The network is of no registered framework, the input has no such axis, the output is invalid, or the score has
        no such target.
    udfs.handlers.UntraceableModelError
        The network cannot be traced into layers.

    Examples
    --------
    >>> from torch import nn
    >>> table = np.random.default_rng(0).normal(size=(100, 4)).astype("float32")
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    >>> attributor = tensor_attributor(network, table[0])
    >>> attributor.ablation(baseline=table).values.shape  # each column drawn from the table
    (4,)
    """
    network_framework = framework_of(network)
    if network_framework is None:
        raise InvalidArgumentError(
            f"network must be a model of a framework that this process has imported, got a {type(network).__name__}"
        )
    arrays = as_inputs(inputs)
    if not 0 <= of < len(arrays):
        raise InvalidArgumentError(f"of must be an index of the {len(arrays)} inputs, counted from 0, got {of}")
    rank = arrays[of].ndim
    if channels == "auto":
        last = rank - 1 if network_framework.channels_last else 0
        channels = None if rank < 2 else last
    if isinstance(channels, bool | str) or (channels is not None and not -rank <= channels < rank):
        raise InvalidArgumentError(f"channels must be one of the input's {rank} axes, got {channels!r}")
    with one_record(network_framework, network, arrays):
        traced = network_framework.trace(network, [TensorSpec(array.shape, str(array.dtype)) for array in arrays])
        names = traced.graph.inputs
    source = AttributedInput(
        dict(zip(names, arrays, strict=True)), names[of], channels=None if channels is None else channels % rank
    )
    prepared = traced.prepare(network_framework.threads())
    return _attributor(prepared, source, keywords, batch_size)


@validate_arguments
def text_attributor(  # noqa: PLR0913 - options by name
    text: str,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | None = None,
    *,
    like: str | None = None,
    unit: str = "token",
    replacement: str | None = None,
    pooling: str = "mean",
    batch_size: int = 32,
    seed: int = 0,
) -> Attributor:
    """Open a text encoder of the roster for attributions of one text, by its tokens or words.

    The score is the cosine similarity of the text's vector to another text's, so the attribution explains what makes
    two texts similar.

    Parameters
    ----------
    text : str
        Text whose tokens or words get the attribution.
    model : str or ModelCard
        Text encoder of the roster.
    weights : path or URI, optional
        Folder with ``model.safetensors`` and ``tokenizer.json``.
    like : str, optional
        Text to compare with. Default: the text itself.
    unit : {"token", "word"}
        Unit that is replaced. Default ``"token"``.
    replacement : {"mask", "pad"}, optional
        Token that replaces others: ``"mask"``, the tokenizer's mask token, or ``"pad"``, a padding token that no other
        token attends to. Default ``"mask"`` where the tokenizer has one.
    pooling : {"mean", "cls"}
        Pooling of the last block. Default ``"mean"``.
    batch_size : int
        Texts per batch. Default 32.
    seed : int
        Seed of random weights. Default 0.

    Returns
    -------
    Attributor
        Attribution methods for the text.

    Raises
    ------
    InvalidArgumentError
        The model does not read text, the unit, replacement or pooling is unknown, or the text has no tokens.
    udfs.weights.WeightsError
        The tokenizer is missing.
    """
    card = roster.of(model)
    if not isinstance(card.preprocessing, Tokenization):
        raise InvalidArgumentError(
            f"model must be a text encoder, got {card.name!r}, which reads {card.kind}s; image_attributor reads images"
        )
    _check("unit", unit, ("token", "word"))
    _check("pooling", pooling, ("mean", "cls"))
    tokenization = card.preprocessing
    if weights is not None:
        tokenization = Tokenization(tokenization.max_length, f"{weights}/{TOKENIZER}")
    tokenizer = open_tokenizer(tokenization)
    encoding = tokenizer.encode(text)
    numbers = _units(encoding, unit)
    ids, mask = (np.array(row, np.int64) for row in (encoding.ids, encoding.attention_mask))
    mask_token = next((token for token in _MASKS if tokenizer.token_to_id(token) is not None), None)
    _check("replacement", replacement, (None, "pad", *(["mask"] if mask_token else [])))
    uses_mask = mask_token is not None and replacement != "pad"
    other = tokenizer.token_to_id(mask_token) if uses_mask else tokenizer.padding["pad_id"]

    warn_of_random_weights(card, weights, seed)
    network_framework = framework(card.framework)
    loaded = roster.load(card, card.weights if weights is None else f"{weights}/{FOLDER_WEIGHTS}", seed=seed)
    traced = network_framework.trace(loaded, list(tokenization.inputs)).prepare(network_framework.threads())
    id_name, mask_name = traced.graph.inputs
    head = 1 + len(card.layers) * (1 if pooling == "mean" else 2) - 1
    compared = encoding if like is None else tokenizer.encode(like)
    feeds = {id_name: np.array(compared.ids, np.int64), mask_name: np.array(compared.attention_mask, np.int64)}
    reference = _vector(traced, head, feeds)

    def similarity(vectors: NDArray[Any]) -> NDArray[Any]:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(reference)
        return np.asarray(vectors @ reference / lengths)

    similarity.__name__ = f"cosine similarity to {'its own vector' if like is None else repr(like)}"
    stays = numbers < 0  # tokens that begin and end a text, and padding
    replacements = {id_name: np.where(stays, ids, other)}
    if not uses_mask:
        replacements[mask_name] = np.where(stays, mask, 0)
    source = AttributedInput(
        {id_name: ids, mask_name: mask},
        id_name,
        default=f"the token {mask_token}" if uses_mask else "padding that no token attends to",
        groups=numbers,
        replacements=replacements,
    )
    attributor = _attributor(traced, source, {"target": 0, "output": similarity, "head": head}, batch_size)
    return replace(attributor, labels=tuple(encoding.tokens), has_random_weights=has_random_weights(card, weights))


def _attributor(model: TracedModel, source: AttributedInput, keywords: ScoreKeywords, batch_size: int) -> Attributor:
    """Settle the score on the whole input."""
    check_positive("batch_size", batch_size)
    score, target = Score(keywords.get("output"), keywords.get("head")), keywords.get("target")
    layer = score.check(model)
    outputs = model.run({name: array[None] for name, array in source.inputs.items()}, [layer])[layer]
    settled = score.settle(model, outputs)
    scores = settled(outputs)[0]
    predicted = int(scores.argmax())
    chosen = predicted if target is None else target
    if isinstance(chosen, bool) or not isinstance(chosen, int | np.integer) or not 0 <= chosen < len(scores):
        raise InvalidArgumentError(
            f"target must be an element of the score, from 0 to {len(scores) - 1}, got {target!r}"
        )
    return Attributor(
        target=int(chosen),
        predicted=predicted,
        whole=float(scores[chosen]),
        score=settled.statement,
        source=source,
        model=model,
        settled=settled,
        batch_size=batch_size,
        network=getattr(model, "original", None),
        head=score.head,
    )


def _vector(model: TracedModel, head: int, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Encode one text."""
    layer = model.output_layer(head)
    vectors: NDArray[Any] = model.run({name: array[None] for name, array in feeds.items()}, [layer])[layer]
    return vectors.reshape(-1)


def _units(encoding: Any, unit: str) -> NDArray[np.int64]:
    """Number the token or word of each position; -1 for padding and for tokens that begin or end a text."""
    words: list[int | None] = list(encoding.word_ids)
    positions = {
        position: position if unit == "token" else word
        for position, (special, word) in enumerate(zip(encoding.special_tokens_mask, words, strict=True))
        if not special and word is not None
    }
    if not positions:
        raise InvalidArgumentError("text must have a token, got none to replace")
    numbers = np.full(len(words), -1, np.int64)
    numbers[list(positions)] = list(positions.values())
    return numbers


def _check(name: str, value: str | None, allowed: Sequence[str | None]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
