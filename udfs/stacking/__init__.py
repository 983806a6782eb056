"""Batched training of small models: sessions of one architecture train as one stack, with a step for all.

Cerebro's workers train one configuration at a time; small networks leave most of a core idle between the operations of
a step. A stack of them shares the operations, and each model learns what it learns alone.
"""

from udfs.stacking._decision import StackDecision
from udfs.stacking._reasons import stack_key, unstackable_reason
from udfs.stacking._stack import Stack

__all__ = ["Stack", "StackDecision", "stack_key", "unstackable_reason"]
