"""What the columns of some data probably mean: for `headrace init`, and for `auto` and patterns under `features:`."""
