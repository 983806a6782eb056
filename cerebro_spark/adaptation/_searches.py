"""Searches of a campaign's cycles: the user's own, or a grid in which each candidate trains the epochs it says."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._grid import CandidateGrid
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import Search
from udfs.driver import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cerebro_spark.adaptation._candidates import OpenedCandidate
    from cerebro_spark.hopper import SparkBackend

__all__ = ["check_search", "epochs_of", "new_search"]

# Settings that a campaign and the searches of its cycles have in common.
_OF_A_SEARCH = (
    "backend",
    "store",
    "trainer_fn",
    "search_space",
    "feature_columns",
    "label_columns",
    "weight_column",
    "image_size",
    "test_fraction",
    "metric",
    "mode",
    "errors",
    "callbacks",
    "experiment",
    "tensorboard",
    "progress",
    "unit_timeout_s",
    "schedule",
    "rounds",
    "seed",
)


def check_search(search: Any) -> None:
    """Check what is to make the searches.

    Parameters
    ----------
    search : object
        As ``search`` of an :class:`Adaptation`.

    Raises
    ------
    InvalidArgumentError
        It makes no search, or says what the campaign says.
    """
    if search is None:
        return
    if not callable(search):
        raise InvalidArgumentError(f"search={search!r}: what makes a search, as partial(Hyperband, max_epochs=9)")
    own = search.keywords if isinstance(search, partial) else {}
    twice = sorted({*_OF_A_SEARCH, "checkpoints", "replicas"}.intersection(own))
    if twice:
        raise InvalidArgumentError(
            f"search has {twice[0]}={own[twice[0]]!r}, which is the campaign's: give it to Adaptation({twice[0]}=...)"
        )


def new_search(given: Mapping[str, Any], epochs: Sequence[int]) -> Search:
    """Make the search of a cycle.

    Parameters
    ----------
    given : mapping of str to object
        Settings of an :class:`Adaptation`, by name.
    epochs : sequence of int
        Of each configuration of a grid; another search says them itself.

    Raises
    ------
    InvalidArgumentError
        A setting is not allowed, or ``search`` made no search.
    """
    search = given["search"]
    settings = {name: given[name] for name in _OF_A_SEARCH}
    settings["checkpoints"] = given["checkpoints"] or ("end" if search is None else "epochs")
    settings["replicas"] = given["replicas"] or _replicas(given["backend"])
    if search is None:
        return CandidateGrid(**settings, epochs=epochs)
    made = search(**settings)
    if not isinstance(made, Search):
        raise InvalidArgumentError(
            f"search made a {type(made).__name__}: give what makes a search, as partial(Hyperband, max_epochs=9)"
        )
    return made


def _replicas(backend: SparkBackend) -> int:
    """Choose how many workers read each shard: all where they share a disk."""
    # A command checks its arguments before it has a session.
    local = backend.spark is not None and is_local(backend.spark)
    return backend.num_workers if local else 1


def epochs_of(candidate: OpenedCandidate) -> int:
    """Give the epochs that a configuration trains in a grid.

    Raises
    ------
    InvalidArgumentError
        Its trainer does not say.
    """
    if candidate.epochs is None:
        raise InvalidArgumentError(
            f"the trainer of {candidate.params} says no epochs: ModelTrainer(..., epochs=5), or give a search= that "
            "says it, as partial(Hyperband, max_epochs=9)"
        )
    return candidate.epochs
