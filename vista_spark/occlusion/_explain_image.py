"""Occlusion heat maps of one image, computed incrementally (Krypton, chapters 6 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from udfs.driver import hint_options
from vista_spark.occlusion._options import ImageKeywords
from vista_spark.occlusion._session import ExplainerSession

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    import torch
    from pyspark.sql import SparkSession

    from vista_spark.occlusion._explanation import Explanation, ImageSource
    from vista_spark.roster import ModelCard

__all__ = ["explain_image", "explain_image_sizes", "explain_image_targets"]


@hint_options(ImageKeywords)
def explain_image(
    image: ImageSource,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    image_size: int | None = None,
    spark: SparkSession | None = None,
    device: str = "auto",
    **keywords: Unpack[ImageKeywords],
) -> Explanation:
    """Cover every place of an image with a patch and map the network's score (Krypton, equations 6.1 to 6.6).

    Parameters
    ----------
    image : bytes, path or array
        Image that :func:`udfs.images.decode` reads. An array, a tensor of torch or nested lists are one image as the
        network reads it, without an axis of records.
    model : str or ModelCard
        Network of the roster. Networks of frameworks other than PyTorch are computed in full for each place.
    weights : path, URI or mapping, optional
        Weights, as for :func:`vista_spark.roster.load`. Without them the network is random, and a
        ``RandomWeightsWarning`` is issued.
    image_size : int, optional
        Height and width of the network's input. Default: the model's own.
    spark : SparkSession, optional
        Session whose tasks share the places, as many as run at a time. Workers read the weights from a file, and
        `on_update` is called a few times. Default: this process computes all places.
    device : str
        ``"auto"`` (default) uses an accelerator where there is one; or ``"cpu"``, ``"cuda"``, ... With `spark`, the
        device of the tasks, while this process stays on the CPU.
    **keywords
        Fields of :class:`vista_spark.OcclusionOptions`, which documents them: ``patch_size``, ``stride``, ``target``,
        ``mode`` and others.

    Returns
    -------
    Explanation
        Heat map of the image.

    Raises
    ------
    InvalidArgumentError
        A value of the options is invalid, the score has no such target, a network of several outputs is used without
        `head`, or with `spark`, the weights are not a file.
    optimizer.occlusion.PatchError
        The patch does not fit, the region exceeds the image, or tau is not a fraction.
    udfs.images.ImageError
        The image cannot be read.
    VerificationError
        A place, or the image without a patch, differs from the original network's output; the message names the first
        layer that differs, or reports that the network draws at random.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanation = explain_image(picture, "squeezenet1_1", image_size=64, patch_size=16, stride=16)
    >>> explanation.heat_map.shape
    (4, 4)
    """
    session = ExplainerSession(
        model, weights, image_size=image_size, seed=keywords.get("seed", 0), spark=spark, device=device, view_bytes=0
    )
    return session.explain(image, **keywords)


@hint_options(ImageKeywords, without=("patch_size", "on_update", "on_estimate", "on_progress"))
def explain_image_sizes(
    image: ImageSource,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    patch_sizes: Sequence[int] = (8, 16, 32),
    image_size: int | None = None,
    device: str = "auto",
    **keywords: Unpack[ImageKeywords],
) -> tuple[Explanation, ...]:
    """Explain an image by patches of several sizes; the network is opened once, and its views are made once for all.

    A small patch finds details and misses what occurs twice in the image; a large one locates nothing precisely. A part
    that matters at every size is rarely an artefact of the patch.

    Parameters
    ----------
    image, model, weights, image_size, device
        Image and network, as for :func:`explain_image`.
    patch_sizes : sequence of int
        Extents of the patches. Default 8, 16 and 32.
    **keywords
        Fields of :class:`vista_spark.OcclusionOptions` except `patch_size`, `on_update`, `on_estimate` and
        `on_progress`. The stride, 8 by default, is at most the smallest patch.

    Returns
    -------
    tuple of Explanation
        Heat maps in the order of the sizes.

    Raises
    ------
    InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
        As :func:`explain_image`; or there is no size.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> explanations = explain_image_sizes(picture, "squeezenet1_1", image_size=64, patch_sizes=(16, 32), stride=16)
    >>> [each.heat_map.shape for each in explanations]
    [(4, 4), (3, 3)]
    """
    session = ExplainerSession(
        model, weights, image_size=image_size, seed=keywords.get("seed", 0), device=device, view_bytes=0
    )
    return session.explain_sizes(image, patch_sizes=patch_sizes, **keywords)


@hint_options(ImageKeywords, without=("target",))
def explain_image_targets(
    image: ImageSource,
    model: str | ModelCard,
    weights: str | os.PathLike[str] | Mapping[str, torch.Tensor] | None = None,
    *,
    targets: Sequence[int] | None = None,
    top: int | None = None,
    image_size: int | None = None,
    spark: SparkSession | None = None,
    device: str = "auto",
    **keywords: Unpack[ImageKeywords],
) -> tuple[Explanation, ...]:
    """Explain several targets from one pass over the places: a run of the network has the scores of all of them.

    Parameters
    ----------
    image, model, weights, image_size, spark, device
        Image and network, as for :func:`explain_image`.
    targets : sequence of int, optional
        Elements of the score, such as classes.
    top : int, optional
        Number of targets, the largest for the whole image, instead of `targets`. Default 5.
    **keywords
        Fields of :class:`vista_spark.OcclusionOptions` except `target`. `on_update` receives the heat maps of all
        targets, an array of shape (targets, rows, columns). The second stage of drill-down computes the places of all
        targets for each.

    Returns
    -------
    tuple of Explanation
        Heat maps in the order of the targets, or the largest first.

    Raises
    ------
    InvalidArgumentError, optimizer.occlusion.PatchError, udfs.images.ImageError
        As :func:`explain_image`; or there is no target, or both `targets` and `top`.

    Examples
    --------
    >>> import numpy as np
    >>> picture = np.random.default_rng(0).normal(size=(3, 64, 64)).astype("float32")
    >>> first, second = explain_image_targets(picture, "squeezenet1_1", image_size=64, stride=16, targets=(7, 281))
    >>> first.target, second.target
    (7, 281)
    """
    session = ExplainerSession(
        model, weights, image_size=image_size, seed=keywords.get("seed", 0), spark=spark, device=device, view_bytes=0
    )
    return session.explain_targets(image, targets=targets, top=top, **keywords)
