"""The runner for this machine: a fork server, a scheduler, ML Metadata, and the removal of old runs."""
