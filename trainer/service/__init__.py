"""The processes of a tf.data service, and how they are found."""
