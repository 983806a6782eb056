"""Benchmarks of serving (Nexus)."""
