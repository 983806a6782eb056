"""The version of the distribution, its only home."""

__version__ = "0.2.0"
