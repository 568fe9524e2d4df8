"""The code that a run uses, found and digested without importing it."""
