"""Checkpoints: from which an interrupted training resumes."""
