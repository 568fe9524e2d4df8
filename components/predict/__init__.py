"""Predictions for new data: read as ExampleGen reads it, computed by an exported model, written in one file."""
