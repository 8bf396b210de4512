"""Measurements of the numbers this project promises, each as a ratio or a count within one run.

Nothing here asserts: a benchmark measures. All data is made from a seed. `scripts/bench` runs it and prints one JSON
object.
"""
