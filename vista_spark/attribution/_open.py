"""Attributors of an image, of any tensor and of a text: the network is opened and the score settled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from udfs.attribution import positive
from udfs.driver import hint_keywords
from udfs.handlers import TensorSpec, framework, framework_of
from udfs.images import decode
from udfs.inference import TOKENIZER, Tokenization, open_tokenizer
from udfs.occlusion import Score
from udfs.weights import FOLDER_WEIGHTS
from vista_spark import roster
from vista_spark.attribution._attributor import Attributor
from vista_spark.errors import InvalidArgumentError
from vista_spark.network import has_random_weights, warn_of_random_weights
from vista_spark.occlusion import as_image, as_inputs, check_explainable, color_fill, one_record, shown_image

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import torch
    from numpy.typing import NDArray

    from udfs.handlers import Framework, TracedModel
    from udfs.occlusion import Output
    from vista_spark.roster import ModelCard

__all__ = ["image_attributor", "tensor_attributor", "text_attributor"]

_MASKS = ("[MASK]", "<mask>")


@hint_keywords
def image_attributor(
    image: bytes | str | os.PathLike[str] | NDArray[np.float32] | torch.Tensor,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    target: int | None = None,
    output: Output | None = None,
    head: str | int | None = None,
    patch_color: tuple[int, int, int] = (128, 128, 128),
    image_size: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
) -> Attributor:
    """Open a network of the roster for attributions of one image, by methods beside occlusion.

    Parameters
    ----------
    image, model, weights, target, output, head, image_size, seed
        As for :func:`vista_spark.explain_image`. The network may be of any framework.
    patch_color : tuple of 3 int
        Of the baseline ``"color"``, in RGB from 0 to 255; grey by default.
    batch_size : int
        Inputs at a time. Default 32.

    Returns
    -------
    Attributor

    Raises
    ------
    InvalidArgumentError
        An unknown output, a target that the score does not have, a colour that is none, a model of another kind.
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
    own = framework(card.framework)
    traced = own.trace(roster.load(card, weights, seed=seed), list(preprocessing.inputs))
    (name,) = traced.graph.inputs
    return _opened(
        own,
        traced,
        {name: pixels},
        Score(output, head),
        target,
        of=name,
        head=head,
        channels=0 if preprocessing.layout == "NCHW" else 2,
        fill=fill,
        default="color",
        batch_size=batch_size,
        picture=shown_image(pixels, preprocessing),
        color=", ".join(map(str, patch_color)),
        has_random_weights=has_random_weights(card, weights),
    )


@hint_keywords
def tensor_attributor(
    network: Any,
    inputs: NDArray[Any] | torch.Tensor | Sequence[NDArray[Any] | torch.Tensor],
    *,
    of: int = 0,
    channels: int | str | None = "auto",
    target: int | None = None,
    output: Output | None = None,
    head: str | int | None = None,
    batch_size: int = 32,
) -> Attributor:
    """Open any network for attributions of one tensor: a row of a table, a series, an image, a volume.

    Parameters
    ----------
    network : object
        A model of PyTorch, Keras or another registered framework, in inference mode.
    inputs : array or tensor, or a list of them
        In the order of the network's inputs, without the axis of records.
    of : int
        Which input is attributed to. Default the first.
    channels : int, optional
        Axis of its channels; ``None`` where it has none. By default the first of a network of PyTorch and the last of
        one of Keras, if the input has two axes or more.
    target, output, head
        As for :func:`vista_spark.explain_tensor`.
    batch_size : int
        Inputs at a time. Default 32.

    Returns
    -------
    Attributor

    Raises
    ------
    InvalidArgumentError
        An object that no framework knows, an axis that the input does not have, an unknown output, a target that the
        score does not have.
    udfs.handlers.UntraceableModelError
        The network cannot be opened into layers.

    Examples
    --------
    >>> from torch import nn
    >>> table = np.random.default_rng(0).normal(size=(100, 4)).astype("float32")
    >>> network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    >>> attributor = tensor_attributor(network, table[0])
    >>> attributor.ablation(baseline=table).values.shape  # each column drawn from the table
    (4,)
    """
    own = framework_of(network)
    if own is None:
        raise InvalidArgumentError(
            f"a {type(network).__name__} is a model of no framework that this process has imported"
        )
    arrays = as_inputs(inputs)
    if not 0 <= of < len(arrays):
        raise InvalidArgumentError(f"of={of}: there are {len(arrays)} inputs, counted from 0")
    rank = arrays[of].ndim
    if channels == "auto":
        channels = None if rank < 2 else rank - 1 if own.channels_last else 0  # channels and an axis
    if isinstance(channels, bool | str) or (channels is not None and not -rank <= channels < rank):
        raise InvalidArgumentError(f"channels={channels!r}: the input has {rank} axes")
    with one_record(own, network, arrays):
        traced = own.trace(network, [TensorSpec(array.shape, str(array.dtype)) for array in arrays])
        names = traced.graph.inputs
    return _opened(
        own,
        traced,
        dict(zip(names, arrays, strict=True)),
        Score(output, head),
        target,
        of=names[of],
        head=head,
        channels=None if channels is None else channels % rank,
        default="mean",
        batch_size=batch_size,
    )


@hint_keywords
def text_attributor(
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

    The score is the cosine similarity of the text's vector with another text's: what makes two texts alike.

    Parameters
    ----------
    text : str
    model : str or ModelCard
        Of the roster; a text encoder.
    weights : path or URI, optional
        Of a folder with ``model.safetensors`` and ``tokenizer.json``.
    like : str, optional
        The text that it is compared with. By default itself: what its own vector is made of.
    unit : {"token", "word"}
        What is replaced at a time. Default ``"token"``.
    replacement : {"mask", "pad"}, optional
        ``"mask"``, the tokenizer's mask token, where it has one; or ``"pad"``, a padding token that nothing attends to.
        Default the first that there is.
    pooling : {"mean", "cls"}
        Of the last block. Default ``"mean"``.
    batch_size : int
        Texts at a time. Default 32.
    seed : int
        Of random weights.

    Returns
    -------
    Attributor

    Raises
    ------
    InvalidArgumentError
        A model that reads no text, an unknown unit, replacement or pooling, a text without tokens.
    udfs.weights.WeightsError
        There is no tokenizer.
    """
    card = roster.of(model)
    if not isinstance(card.preprocessing, Tokenization):
        raise InvalidArgumentError(f"model {card.name!r} reads {card.kind}s: image_attributor is for images")
    _check("unit", unit, ("token", "word"))
    _check("pooling", pooling, ("mean", "cls"))
    tokenization = card.preprocessing
    if weights is not None:
        tokenization = Tokenization(tokenization.max_length, f"{weights}/{TOKENIZER}")
    tokenizer = open_tokenizer(tokenization)
    encoding = tokenizer.encode(text)
    numbers = _units(encoding, unit)
    ids, mask = (np.array(row, np.int64) for row in (encoding.ids, encoding.attention_mask))
    held = next((token for token in _MASKS if tokenizer.token_to_id(token) is not None), None)
    _check("replacement", replacement, (None, "pad", *(["mask"] if held else [])))
    hidden = held is not None and replacement != "pad"
    other = tokenizer.token_to_id(held) if hidden else tokenizer.padding["pad_id"]

    warn_of_random_weights(card, weights, seed)
    own = framework(card.framework)
    source = None if weights is None else f"{weights}/{FOLDER_WEIGHTS}"
    traced = own.trace(roster.load(card, source or card.weights, seed=seed), list(tokenization.inputs))
    id_name, mask_name = traced.graph.inputs
    head = 1 + len(card.layers) * (1 if pooling == "mean" else 2) - 1
    own_vector = _vector(traced.prepare(own.threads()), head, {id_name: ids, mask_name: mask})
    reference = own_vector
    if like is not None:
        compared = tokenizer.encode(like)
        feeds = {id_name: np.array(compared.ids), mask_name: np.array(compared.attention_mask)}
        reference = _vector(traced, head, feeds)

    def similarity(vectors: NDArray[Any]) -> NDArray[Any]:
        lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(reference)
        return np.asarray(vectors @ reference / lengths)

    similarity.__name__ = f"cosine similarity to {'its own vector' if like is None else repr(like)}"
    stays = numbers < 0  # tokens that begin and end a text, and padding
    beside = {id_name: np.where(stays, ids, other)}
    if not hidden:
        beside[mask_name] = np.where(stays, mask, 0)
    return _opened(
        own,
        traced,
        {id_name: ids, mask_name: mask},
        Score(similarity, head),
        0,
        of=id_name,
        head=head,
        default=f"the token {held}" if hidden else "padding that nothing attends to",
        batch_size=batch_size,
        labels=tuple(encoding.tokens),
        groups=numbers,
        beside=beside,
        has_random_weights=has_random_weights(card, weights),
    )


def _opened(
    own: Framework,
    traced: TracedModel,
    inputs: Mapping[str, NDArray[Any]],
    score: Score,
    target: int | None,
    **settings: Any,
) -> Attributor:
    """Settle the score on the whole input."""
    positive("batch_size", settings["batch_size"])
    layer = score.check(traced)
    model = traced.prepare(own.threads())
    outputs = model.run({name: array[None] for name, array in inputs.items()}, [layer])[layer]
    settled = score.settle(model, outputs)
    scores = settled(outputs)[0]
    predicted = int(scores.argmax())
    counted = predicted if target is None else target
    if isinstance(counted, bool) or not isinstance(counted, int | np.integer) or not 0 <= counted < len(scores):
        raise InvalidArgumentError(f"target={target!r}: an element of the score, from 0 to {len(scores) - 1}")
    return Attributor(
        inputs=inputs,
        model=model,
        settled=settled,
        target=int(counted),
        predicted=predicted,
        whole=float(scores[counted]),
        score=settled.statement,
        network=getattr(model, "original", None),
        **settings,
    )


def _vector(model: TracedModel, head: int, feeds: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Encode one text."""
    layer = model.output_layer(head)
    vectors: NDArray[Any] = model.run({name: array[None] for name, array in feeds.items()}, [layer])[layer]
    return vectors.reshape(-1)


def _units(encoding: Any, unit: str) -> NDArray[np.int64]:
    """Number the token or word of each place; -1 for padding and for tokens that begin or end a text."""
    words: list[int | None] = list(encoding.word_ids)
    places = {
        place: place if unit == "token" else word
        for place, (special, word) in enumerate(zip(encoding.special_tokens_mask, words, strict=True))
        if not special and word is not None
    }
    if not places:
        raise InvalidArgumentError("text: it has no tokens, so there is nothing to replace")
    numbers = np.full(len(words), -1, np.int64)
    numbers[list(places)] = list(places.values())
    return numbers


def _check(name: str, value: str | None, allowed: Sequence[str | None]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"{name}={value!r}: one of {', '.join(map(repr, allowed))}")
