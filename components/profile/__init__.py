"""ProfileVerdict: where the time of profiled training steps went, and which settings to change."""
