"""`pipeline.extend`: the named components of a pipeline, and the user's own woven in among them."""
