"""Option of a trainer whose model is larger than memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from udfs.training import TrainerError

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

__all__ = ["DiskOffload"]


@dataclass(frozen=True)
class DiskOffload:
    """Parameters and optimizer state in files of a local disk, and activations that are computed again.

    Training gives the same bits as training in memory. The files have no names: the system deletes them when the
    process ends, however it ends. A gradient exists only until the optimizer has stepped its parameter, so memory has
    to take the activations of one recomputed module, the inputs of all of them, and about four times the largest
    parameter.

    Parameters
    ----------
    folder : str or path, optional
        Folder on a local disk of each worker, with room for parameters, optimizer state and two checkpoints. Default:
        the node's cache folder. A folder of a ``tmpfs`` is memory.
    recompute : sequence of str, optional
        Paths of the modules whose activations are computed again in the backward pass, none within another. Default:
        the members of the outermost ``ModuleList`` and ``Sequential`` containers that are more than one operation, such
        as the blocks of a transformer.

    Raises
    ------
    TrainerError
        ``recompute`` is a string.

    Examples
    --------
    >>> import torch
    >>> from cerebro_spark import DiskOffload, ModelTrainer
    >>> def trainer_fn(params):
    ...     offload = DiskOffload()
    ...     with offload.allocate():  # the weights never are in memory as a whole
    ...         net = torch.nn.Linear(1000, 10)
    ...     adam = torch.optim.AdamW(net.parameters(), lr=params["lr"])
    ...     return ModelTrainer(model=net, optimizer=adam, loss=torch.nn.CrossEntropyLoss(), offload=offload)
    >>> trainer_fn({"lr": 0.1}).offload.recompute is None
    True
    """

    folder: str | os.PathLike[str] | None = None
    recompute: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.recompute, str):
            raise TrainerError(
                f"recompute must be a sequence of paths of modules, got {self.recompute!r}. "
                f"Write recompute=[{self.recompute!r}]"
            )

    def allocate(self) -> AbstractContextManager[object]:
        """Return a context in which torch allocates new tensors in files, for weights that do not fit into memory.

        The values are those of an ordinary initialisation. Without it, the weights move to files when training begins.
        """
        from udfs.offloading._allocation import FileAllocation  # imports torch

        return FileAllocation(self.folder)
