"""TensorBoard on the runs of a pipeline, with the profile plugin, even without internet access."""
