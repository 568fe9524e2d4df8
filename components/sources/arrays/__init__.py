"""Arrays in memory: what a Python function returns, or the content of a .npz file."""
