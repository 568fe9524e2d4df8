"""Delimited text files (CSV)."""
