"""Predictions for new data: the model, the input, and where the work runs."""
