"""The TensorFlow Serving of `deploy.serving`: its config file, and whether it has loaded what was pushed."""
