"""What a notebook shows: escaped, complete, and of every plan."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from optimizer.adaptation import AdaptationPlan
from optimizer.compiling import Plan as CompilingPlan
from optimizer.memory import TransferPlan
from optimizer.notebook import ExplainedInNotebooks, html_picture, html_table
from optimizer.procedures import Plan as ProcedurePlan
from optimizer.serving import ServingPlan
from optimizer.transfer import Choice, LogicalPlan


@dataclass(frozen=True, slots=True)
class Named(ExplainedInNotebooks):
    name: str

    def explain(self) -> str:
        return f"plan of {self.name}\n  2 < 3"


def test_every_plan_shows_its_explanation() -> None:
    plans = (AdaptationPlan, Choice, CompilingPlan, LogicalPlan, ProcedurePlan, ServingPlan, TransferPlan)
    assert all(issubclass(plan, ExplainedInNotebooks) and "explain" in vars(plan) for plan in plans)


def test_no_name_becomes_markup() -> None:
    shown = Named("<script>alert(1)</script>")._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown
    assert "\n  2 &lt; 3" in shown, "lines and indents stay"
    assert "<b>" not in html_table(["<b>"], [["<b>"]])
    assert 'onload="' not in html_picture(b"", '" onload="alert(1)')


def test_numbers_of_a_table() -> None:
    row = [0.123456, math.nan, None, 7, np.float64(0.5), np.int64(3), "x"]
    cells = html_table([""] * len(row), [row]).split("<tr>")[2]
    assert cells.replace("</td>", "").replace("</tr></table>", "").split("<td>")[1:] == [
        "0.1235",
        "",
        "",
        "7",
        "0.5",
        "3",
        "x",
    ]
