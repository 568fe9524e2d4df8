"""The models of a pipeline after training: which there are, and which of them is in service."""
