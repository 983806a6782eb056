"""A network for images and a compiled program as one module of torch. Importing this imports torch."""

from ._joined import JoinedModule, OneRow, joined
from ._narrow import narrow

__all__ = ["JoinedModule", "OneRow", "joined", "narrow"]
