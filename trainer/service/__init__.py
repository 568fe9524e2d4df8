"""A tf.data service: its processes, and reading through it without losing an example."""
