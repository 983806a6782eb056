"""DECIDE: the layer graph, cost models and planners. Imports no Spark, no torch and no Keras."""
