"""The version of the distribution, its only home."""

__version__ = "0.1.0.dev0"
