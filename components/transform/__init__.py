"""Transform: the feature columns as one TensorFlow graph, and the transformed examples."""
