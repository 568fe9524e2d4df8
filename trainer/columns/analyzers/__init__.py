"""TFT analyzers: statistics and vocabularies of the whole train split, optionally cached for each span."""
