"""Running text: lines and files as texts, and windows of words."""
