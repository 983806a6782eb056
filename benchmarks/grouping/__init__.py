"""Benchmarks of searches per group."""
