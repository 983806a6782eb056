"""Cascades with guarantees: metrics, tests by betting, thresholds of least cost, and certificates."""

from optimizer.cascades._calibration import NO_ANSWER, Calibration, calibrate
from optimizer.cascades._certificate import Certificate
from optimizer.cascades._evidence import fewest_rows, log_evidence, reaches_target, reaches_target_on_all
from optimizer.cascades._metrics import METRICS, UNKNOWN, Metric, needs_oracle, outcomes, proxy_answers
from optimizer.cascades._paths import cheapest_path, levels
from optimizer.cascades._question import Question
from optimizer.cascades._routes import answers_of, cost_per_row, route, shares

__all__ = [
    "METRICS",
    "NO_ANSWER",
    "UNKNOWN",
    "Calibration",
    "Certificate",
    "Metric",
    "Question",
    "answers_of",
    "calibrate",
    "cheapest_path",
    "cost_per_row",
    "fewest_rows",
    "levels",
    "log_evidence",
    "needs_oracle",
    "outcomes",
    "proxy_answers",
    "reaches_target",
    "reaches_target_on_all",
    "route",
    "shares",
]
