"""The taxi pipeline as one would write it with TFX alone, in the manner of TFX's own taxi example."""
