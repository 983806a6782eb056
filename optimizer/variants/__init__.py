"""Variants of a network: which to build, and what each costs.

Section 4.3.1 of Shen, *System for Serving Deep Neural Networks Efficiently* (MCDNN). Memory is in bytes, time in
seconds, energy in joules, money in dollars.
"""

from optimizer.variants._measurement import MEASURES, Measurement
from optimizer.variants._pareto import pareto_front

__all__ = ["MEASURES", "Measurement", "pareto_front"]
