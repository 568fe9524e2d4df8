"""Statistics of the examples, split by split: StatisticsGen."""

ESTIMATED = "headrace: counts may be higher by"
"""The custom statistic of a column whose number of distinct values is an estimate, and whose counts of the most
frequent values may be too low by so much."""
