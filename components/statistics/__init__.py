"""StatisticsGen: statistics of the examples, split by split."""

ESTIMATED = "headrace: counts may be higher by"
"""The custom statistic of a column whose number of distinct values is an estimate: by how much the counts of its most
frequent values may be too low."""
