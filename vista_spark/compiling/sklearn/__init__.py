"""Parsers of scikit-learn's models, a file a family; importing this registers them. Imports no scikit-learn."""

from . import (
    _calibration,
    _compose,
    _delegates,
    _dummy,
    _ensembles,
    _forests,
    _histograms,
    _linear,
    _multiclass,
    _multioutput,
    _preprocessing,
    _selection,
    _targets,
)

__all__ = [
    "_calibration",
    "_compose",
    "_delegates",
    "_dummy",
    "_ensembles",
    "_forests",
    "_histograms",
    "_linear",
    "_multiclass",
    "_multioutput",
    "_preprocessing",
    "_selection",
    "_targets",
]
