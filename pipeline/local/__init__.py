"""Running a pipeline on this machine."""
