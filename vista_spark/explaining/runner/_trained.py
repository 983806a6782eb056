"""Models of searches as cards of networks that read images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from optimizer.errors import InvalidArgumentError, nearest
from udfs.images import Preprocessing
from vista_spark.roster import ModelCard

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["trained_card"]


def trained_card(searches: Mapping[str, Any], run: str, trial: str) -> ModelCard:
    """Return the card of a configuration's network.

    Parameters
    ----------
    searches : mapping
        Searches of the pool by run: experiments, values with an `experiment`, or selections.
    run, trial : str
        Run, and id of the configuration.

    Raises
    ------
    InvalidArgumentError
        The pool has no such run, it has not ended, or the network reads anything but one image.
    cerebro_spark.errors.NoModelError
        The run has no such configuration, or it was not trained.
    """
    search = searches.get(run)
    if search is None:
        raise InvalidArgumentError(
            f"run must be a search of this pool since its start, got {run!r:.80}{nearest(run, searches) or '.'} Launch "
            "it again from the page, or explain its model in a notebook with vista_spark.explain_image"
        )
    search = getattr(search, "experiment", search)
    if hasattr(search, "wait"):
        if not search.done:
            raise InvalidArgumentError(
                f"run must have ended, got {run!r:.80}, which is training. Try again at its end."
            )
        search = search.wait()
    model = search.model(trial)
    name = f"{trial} of {run}".replace(":", " ")
    side = _image_size(model.inputs)
    if side is None:
        raise InvalidArgumentError(f"network must read one image, got {name!r}, which reads other columns.")
    if model.network.framework != "torch":
        raise InvalidArgumentError(f"network must be one of torch, got {name!r} of {model.network.framework}.")
    from udfs.handlers.torch import load_program  # imports torch, an optional extra

    preprocessing = Preprocessing(crop=side, resize=side, mean=(0.0,) * 3, std=(1.0,) * 3)
    program = load_program(model.network.data).module(check_guards=False)
    return ModelCard(name, program, preprocessing)


def _image_size(inputs: tuple[Any, ...]) -> int | None:
    """Return the height and width of the only input, None unless it is an image as shards have them."""
    if len(inputs) != 1 or np.dtype(inputs[0].dtype) != np.uint8:
        return None
    shape = inputs[0].shape
    return int(shape[1]) if len(shape) == 3 and shape[0] == 3 and shape[1] == shape[2] else None
