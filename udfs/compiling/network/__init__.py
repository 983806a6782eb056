"""A network for images and a compiled program as one module of torch. Importing this imports torch."""

from udfs.compiling.network._joined import JoinedModule, OneRow, joined
from udfs.compiling.network._narrow import narrow

__all__ = ["JoinedModule", "OneRow", "joined", "narrow"]
