"""What the first rows of the data say of a config, before a run would: `headrace validate`, and the start of a run."""
