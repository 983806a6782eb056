"""Benchmarks of the model hopper (Cerebro)."""
