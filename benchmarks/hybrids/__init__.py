"""Hybrids of the model hopper against hopping alone."""
