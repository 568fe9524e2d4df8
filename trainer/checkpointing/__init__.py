"""Checkpoints: what a training that was stopped goes on from."""
