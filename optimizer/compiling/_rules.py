"""Row validation operators: a row that breaks the rule of one is refused."""

from __future__ import annotations

from optimizer.compiling._categories import Known
from optimizer.compiling._columns import Finite
from optimizer.compiling._functions import Reject, Within
from optimizer.compiling._texts import HasText

__all__ = ["RULES", "Rule", "reason_of"]

Rule = Finite | HasText | Known | Reject | Within
RULES = (Finite, HasText, Known, Reject, Within)
"""Classes of row validation operators."""


def reason_of(rule: Rule) -> str:
    """Return the description of a row that breaks a rule, after ``"row 3 has"``."""
    if isinstance(rule, HasText):
        return f"{rule.what}, which {rule.who} does not take"
    if isinstance(rule, Known):
        return f"a category that {rule.who} does not know"
    return rule.reason
