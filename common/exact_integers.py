"""The greatest integers up to which floats hold all, of either sign. Beyond them, two integers may be one float."""

EXACT_IN_FLOAT32 = 1 << 24
EXACT_IN_FLOAT64 = 1 << 53
