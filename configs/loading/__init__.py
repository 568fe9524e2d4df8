"""From YAML or Python objects to the typed config, with every problem reported at once; and back to YAML."""
