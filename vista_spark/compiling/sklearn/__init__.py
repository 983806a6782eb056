"""Parsers of scikit-learn's models, a file a family; importing this registers them. Imports no scikit-learn."""

from . import (
    _bayes,
    _clusters,
    _compose,
    _discriminants,
    _forests,
    _histograms,
    _linear,
    _machines,
    _mixtures,
    _neighbors,
    _networks,
    _preprocessing,
    _processes,
    _regressions,
    _selection,
)

__all__ = [
    "_bayes",
    "_clusters",
    "_compose",
    "_discriminants",
    "_forests",
    "_histograms",
    "_linear",
    "_machines",
    "_mixtures",
    "_neighbors",
    "_networks",
    "_preprocessing",
    "_processes",
    "_regressions",
    "_selection",
]
