"""Ways out for networks that cannot be opened, by what torch says of them."""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["first_line", "quiet", "way_out"]

# They log a traceback of what is about to be raised.
_LOGGERS = ("torch._subclasses.fake_tensor", "torch.fx.experimental.symbolic_shapes", "torch.export")

_OF_SHAPE = (
    r"mat1 and mat2 shapes cannot be multiplied|size mismatch|must match the size|shape '.*' is invalid for input"
    r"|to have \d+ channels|same reduction dim"
)

# Patterns of torch's messages, the most telling first; a group of the match stands for its braces.
_WAYS_OUT: tuple[tuple[str, str], ...] = (
    (
        r"to have (\d+) channels?, but got 3 channels",
        (
            "a layer reads {0} channels and is given red, green and blue: let forward begin with what makes {0} of 3, "
            "such as x.mean(1, keepdim=True) for grey pictures"
        ),
    ),
    (
        r"(?:type \(.*\) and (?:weight|bias) type|expected scalar type|have the same dtype|dtype of|same data ?type)",
        "its layers are of several precisions: call .float() on the network",
    ),
    (
        _OF_SHAPE,
        (
            "it takes inputs of another shape, or has the batch size fixed in the code: give Preprocessing(crop=...) "
            "the size of its images, and write x.size(0) or torch.flatten for the batch"
        ),
    ),
    (
        r"Cannot view a tensor|view size is not compatible",
        "a view() of a tensor whose memory is in another order fails: write reshape()",
    ),
    (
        r"batch size of .* is fixed|[Cc]onstraints violated|specialized",
        "it has the batch size fixed in the code: write x.size(0) or torch.flatten",
    ),
    (
        r"np\.ndarray|\.numpy\(\)|__array__|tolist|PIL|tensor subclasses",
        "its forward leaves torch (numpy, PIL, lists of numbers): write that with torch, or move it out of forward",
    ),
    (
        r"[Dd]ata-dependent|control flow|symbolic(?:ally)? traced|Could not guard|\.item\(\)|_local_scalar_dense",
        "its forward chooses by the values of a tensor: use torch.where or torch.cond, or choose outside of forward",
    ),
    (
        r"changes a buffer|in place|in-place|writes to its argument|mutat",
        "its forward changes a tensor of the network: inference must leave the network as it is",
    ),
)

_OTHERWISE = (
    "usual causes are branches on tensor values, calls out of torch, inputs of another shape and a batch size fixed in "
    "the code; move that out of forward, or give the part of the network that reads the inputs"
)


def way_out(*messages: str) -> str:
    """Explain causes of torch's messages, and the remedy; the first message that matches decides.

    Examples
    --------
    >>> way_out("Input type (float) and bias type (double) should be the same")
    'its layers are of several precisions: call .float() on the network'
    """
    for message in messages:
        for pattern, words in _WAYS_OUT:
            told = re.search(pattern, message)
            if told:
                return words.format(*told.groups())
    return _OTHERWISE


def first_line(error: BaseException) -> str:
    """Write an error in one line: its type and the beginning of its message."""
    text = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def quiet() -> Iterator[None]:
    """Keep torch from logging the tracebacks of errors that are raised anyway, in words."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
