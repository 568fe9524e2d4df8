"""Data that is stored in columns with types: Parquet files, and arrays in memory."""
