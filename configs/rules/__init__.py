"""Rules across sections, one short function each. `registry.py` lists them all."""
