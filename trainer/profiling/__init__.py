"""Profiles of a range of steps."""
