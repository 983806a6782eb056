"""Benchmarks of occlusion and other explanations (Krypton)."""
