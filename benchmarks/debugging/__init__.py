"""Benchmarks of data debugging."""
