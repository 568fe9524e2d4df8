"""ProfileVerdict: what a profile of the training says, and what to change, without a browser."""
