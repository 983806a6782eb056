"""Benchmarks of model variants: approximate model scheduling."""
