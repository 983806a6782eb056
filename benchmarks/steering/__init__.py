"""Benchmarks of steered searches."""
