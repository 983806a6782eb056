"""``Answer``: the result of a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Answer"]


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """Answer to a request.

    Attributes
    ----------
    prediction : str or float
        Label with the largest score.
    scores : array of float, shape (classes,)
        Output of the network.
    variant : str
        Variant that answered.
    place : str
        ``"device"``, ``"cloud"`` or ``"split 0.4"``, whose number is the share of the work on the device.
    joules, dollars : float
        Energy and money that the request was charged: its run, the load that it waited for, and an attempt that failed.
        Loads in the background are charged to the device.
    seconds : float
        Measured time from `submit` to the answer.
    """

    prediction: str | float
    scores: NDArray[np.floating]
    variant: str
    place: str
    joules: float
    dollars: float
    seconds: float
