"""Versions of the schema, the oldest first."""
