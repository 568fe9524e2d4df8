"""A client of TensorFlow Serving, over REST and gRPC."""
