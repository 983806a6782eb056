"""Variants of a network: which to build, and what each costs.

Section 4.3.1 of Shen, *System for Serving Deep Neural Networks Efficiently* (MCDNN). Memory is in bytes, time in
seconds, energy in joules, money in dollars.
"""

from optimizer.variants._interval import wilson_interval
from optimizer.variants._measurement import MEASURES, Measurement
from optimizer.variants._pareto import pareto_front
from optimizer.variants._plan import FULL, Recipe, plan_recipes
from optimizer.variants._transformations import (
    Coarsen,
    Compile,
    Factorize,
    Narrow,
    Quantize,
    Resize,
    Shorten,
    Step,
    Transformation,
)
from optimizer.variants._tuning import Tuning

__all__ = [
    "FULL",
    "MEASURES",
    "Coarsen",
    "Compile",
    "Factorize",
    "Measurement",
    "Narrow",
    "Quantize",
    "Recipe",
    "Resize",
    "Shorten",
    "Step",
    "Transformation",
    "Tuning",
    "pareto_front",
    "plan_recipes",
    "wilson_interval",
]
