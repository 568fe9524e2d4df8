"""Delimited text: where records end, blocks of whole records, their columns, and the place of what is wrong."""
