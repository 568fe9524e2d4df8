"""The components of the DAG, each with what it reads and its settings from the config."""
