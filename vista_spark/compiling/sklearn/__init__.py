"""Parsers of scikit-learn's models, a file a family; importing this registers them. Imports no scikit-learn."""

from . import _compose, _forests, _histograms, _isolation, _linear, _preprocessing, _selection

__all__ = ["_compose", "_forests", "_histograms", "_isolation", "_linear", "_preprocessing", "_selection"]
