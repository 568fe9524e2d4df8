"""Keras callbacks, one file for each."""
