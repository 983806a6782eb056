"""Searches of a campaign's cycles: those of the user, or a grid with the epochs of each trainer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cerebro_spark.adaptation._candidate_grid import CandidateGrid
from cerebro_spark.errors import InvalidArgumentError
from cerebro_spark.tune import Search
from udfs.driver import is_local

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cerebro_spark.adaptation._candidates import OpenedCandidate
    from cerebro_spark.adaptation._settings import CampaignSettings
    from cerebro_spark.hopper import SparkBackend

__all__ = ["check_search", "epochs_of", "new_search"]

# Settings that a campaign passes to the searches of its cycles.
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
    """Validate the function that creates searches.

    Raises
    ------
    InvalidArgumentError
        It sets a setting of the campaign.
    """
    keywords = search.keywords if isinstance(search, partial) else {}
    twice = sorted({*_OF_A_SEARCH, "checkpoints", "replicas"}.intersection(keywords))
    if twice:
        raise InvalidArgumentError(
            f"search must leave {twice[0]} to the campaign, got {keywords[twice[0]]!r}: set it in "
            f"Adaptation({twice[0]}=...)"
        )


def new_search(settings: CampaignSettings, epochs: Sequence[int]) -> Search:
    """Create the search of a cycle.

    ``epochs`` are those of each configuration of a grid; another search does not use them.

    Raises
    ------
    InvalidArgumentError
        A setting is not allowed, or ``search`` does not return a search.
    """
    search = settings.search
    shared = {name: getattr(settings, name) for name in _OF_A_SEARCH}
    shared["checkpoints"] = settings.checkpoints or ("end" if search is None else "epochs")
    shared["replicas"] = settings.replicas or _replicas(settings.backend)
    if search is None:
        return CandidateGrid(**shared, epochs=epochs)
    made: Any = search(**shared)
    if not isinstance(made, Search):
        raise InvalidArgumentError(
            f"search must return a search, as partial(Hyperband, max_epochs=9) does, got {type(made).__name__}"
        )
    return made


def _replicas(backend: SparkBackend) -> int:
    """Return the number of workers that read each shard: all of them if they share a disk."""
    # A command validates its arguments before it has a session.
    local = backend.spark is not None and is_local(backend.spark)
    return backend.num_workers if local else 1


def epochs_of(candidates: Sequence[OpenedCandidate | None]) -> list[int]:
    """Return the epochs of the configurations in a grid; those that cannot be opened have as many as the longest.

    Raises
    ------
    InvalidArgumentError
        A trainer does not set them.
    """
    opened = [candidate for candidate in candidates if candidate is not None]
    for candidate in opened:
        if candidate.epochs is None:
            raise InvalidArgumentError(
                f"epochs of the trainer must be set without a search, got None for {candidate.params}: use "
                "ModelTrainer(..., epochs=5), or a search= such as partial(Hyperband, max_epochs=9)"
            )
    longest = max((candidate.epochs or 0 for candidate in opened), default=0)
    return [longest if candidate is None else candidate.epochs or 0 for candidate in candidates]
