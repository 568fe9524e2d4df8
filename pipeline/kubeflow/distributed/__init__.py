"""Training in several pods: the JobSet that the Trainer's task creates and watches, and the program of its pods."""
