"""Steering of running searches by users."""
