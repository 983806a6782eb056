"""Benchmarks of adaptation (Nautilus)."""
