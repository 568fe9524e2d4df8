"""Training in several pods: a JobSet that the Trainer's task makes, watches and removes, and what runs in its pods."""
