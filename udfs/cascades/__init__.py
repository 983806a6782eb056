"""Execution of cascades: members with class scores, rows that go on to the next member, stored answers."""

from udfs.cascades._class_scores import ClassScores, identity_of
from udfs.cascades._members import Chained, ColumnScores, Member, MemberScores, OpenMember
from udfs.cascades._scoring import CascadeScoring, SampleScoring
from udfs.cascades._stored_answers import StoredAnswers, open_answers, row_keys

__all__ = [
    "CascadeScoring",
    "Chained",
    "ClassScores",
    "ColumnScores",
    "Member",
    "MemberScores",
    "OpenMember",
    "SampleScoring",
    "StoredAnswers",
    "identity_of",
    "open_answers",
    "row_keys",
]
