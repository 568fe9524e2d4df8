"""New data that a run predicts at its end: what there is, its predictions, and the file they are put into."""
