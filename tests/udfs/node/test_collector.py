"""The collector skips existing objects while at least one caller needs that."""

from __future__ import annotations

import gc
import weakref

from udfs.node import FrozenHeap


class Node:
    def __init__(self) -> None:
        self.itself = self


def test_it_is_thawed_with_the_last_one() -> None:
    one, other = FrozenHeap(), FrozenHeap()
    one.freeze()
    other.freeze()
    one.freeze()
    one.thaw()
    assert gc.get_freeze_count() > 0
    one.thaw()
    assert gc.get_freeze_count() > 0, "a second time counts for nothing"
    other.thaw()
    assert gc.get_freeze_count() == 0


def test_what_went_since_is_freed_when_it_freezes_again() -> None:
    heap = FrozenHeap()
    node = Node()
    heap.freeze()
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is not None, "the collector passes over it"
    heap.freeze()
    assert gone() is None
    heap.thaw()


def test_a_server_may_stop_before_it_froze_anything() -> None:
    FrozenHeap().thaw()
    assert gc.get_freeze_count() == 0
