"""Datasets prepared by TensorFlow Datasets."""
