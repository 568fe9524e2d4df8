"""Datasets that TensorFlow Datasets has prepared."""
