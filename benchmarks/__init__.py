"""Ours and stock TFX side by side: `python -m benchmarks`."""
