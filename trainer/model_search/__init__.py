"""`model: {kind: auto}`: the search for the kind of model."""
