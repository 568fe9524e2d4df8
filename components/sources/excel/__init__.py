"""Workbooks: `data.source.kind: excel`."""
