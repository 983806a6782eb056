"""TRAIN models over DataFrames."""
