"""Statistics of the examples, split by split: StatisticsGen."""
