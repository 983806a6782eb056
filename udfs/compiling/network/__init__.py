"""A network for images and a compiled program as one module of torch. Importing this imports torch."""

from udfs.compiling.network._channel_removal import narrow
from udfs.compiling.network._joined_module import JoinedModule, OneRow, joined

__all__ = ["JoinedModule", "OneRow", "joined", "narrow"]
