"""The models of a pipeline after training: which there are, and which of them is in service."""

CARD = "model_card.html"
"""The model card in the folder of the run that trained the model."""
