"""Epochs that several workers train together: all-reduce of gradients, and averaging of weights."""

from udfs.hybrids._joint_epoch import JointEpoch
from udfs.hybrids._reasons import unshareable_reason
from udfs.hybrids._shard_rows import ShardRows, gather_rows

__all__ = ["JointEpoch", "ShardRows", "gather_rows", "unshareable_reason"]
