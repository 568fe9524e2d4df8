"""A server for trying a model out: JSON over HTTP, in the form of TensorFlow Serving's REST API."""
