"""Batched training of small models against training one by one."""
