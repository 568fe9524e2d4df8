"""Datasets that the `datasets` library of Hugging Face stored."""
