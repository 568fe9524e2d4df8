"""The training of `model.kind: trees`: LightGBM grows them, one iteration at a time, from examples in memory."""
