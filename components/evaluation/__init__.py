"""Evaluator: a TFMA evaluation over whole batches.

It keeps TFMA's config, metric names, files and validation, and computes metrics from sums that NumPy makes of whole
batches, where TFMA calls Python for each example, slice and metric.
"""
