"""The client of the tf.data service: batches that other processes read."""
