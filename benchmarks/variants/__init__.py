"""Benchmarks of model variants: approximate model scheduling, and shared trunks."""
