"""Benchmarks of sequential specialization."""
