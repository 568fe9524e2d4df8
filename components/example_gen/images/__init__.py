"""Images: what their bytes say, the pixels, and which there are."""
