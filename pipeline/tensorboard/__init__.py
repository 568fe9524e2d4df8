"""TensorBoard over the runs of a pipeline, with the profile plugin, also where there is no internet."""
