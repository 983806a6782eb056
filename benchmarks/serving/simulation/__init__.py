"""Simulator of serving plans, and the baselines of the thesis: chapter 3 in simulated time."""

from benchmarks.serving.simulation.algorithm_3_1 import plan_by_algorithm_3_1
from benchmarks.serving.simulation.arrivals import arrival_times
from benchmarks.serving.simulation.balancing import BALANCERS, TwoChoices, WeightedRandom, balancer
from benchmarks.serving.simulation.baselines import plan_batch_oblivious, split_evenly
from benchmarks.serving.simulation.front_ends import FrontEnds
from benchmarks.serving.simulation.outcome import Outcome, Served
from benchmarks.serving.simulation.simulate import simulate

__all__ = [
    "BALANCERS",
    "FrontEnds",
    "Outcome",
    "Served",
    "TwoChoices",
    "WeightedRandom",
    "arrival_times",
    "balancer",
    "plan_batch_oblivious",
    "plan_by_algorithm_3_1",
    "simulate",
    "split_evenly",
]
