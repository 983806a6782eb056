"""Benchmarks of compiled pipelines (Hummingbird)."""
