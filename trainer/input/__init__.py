"""The input pipeline: from TFRecords of transformed examples to batches."""
