"""Benchmarks of cascades with guarantees."""
