"""Benchmarks of feature transfer (Vista)."""
