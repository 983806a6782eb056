"""Benchmarks of search procedures (Cerebro)."""
