"""Benchmarks of video reading."""
