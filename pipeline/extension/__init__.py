"""The components of a pipeline by name."""
