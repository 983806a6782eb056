"""Parts that the benchmarks of several systems share."""
