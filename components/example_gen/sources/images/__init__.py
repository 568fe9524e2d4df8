"""JPEG and PNG images."""
